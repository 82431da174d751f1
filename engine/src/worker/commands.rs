//! What other threads tell the worker to do, between two looks at the wire.

use super::{Finish, PATIENCE, Worker};
use crate::command::{Command, WorkerLimits};
use crate::metrics::Work;

impl Worker {
    pub(super) fn run_commands(&mut self) -> bool {
        let mut obeyed = false;
        while let Some(command) = self.commands.next() {
            obeyed = true;
            self.execute(command);
        }
        obeyed
    }

    pub(super) fn execute(&mut self, command: Command) {
        match command {
            Command::AddInterface(interface, open, reply) => {
                let opened = open(&self.arena);
                let added = opened.map(|device| self.add_interface(&interface, device));
                // Tools that see the service ready see what it serves.
                self.write_metrics();
                reply.answer(added);
            }
            Command::ReplaceInterface(number, interface, open, reply) => {
                reply.answer(self.replace_interface(number, &interface, open));
            }
            Command::CloseInterface(number, reply) => reply.after(|| self.close_interface(number)),
            Command::RemoveInterface(number) => self.remove_interface(number),
            Command::SetAddresses(interface, addresses) => self.set_addresses(interface, addresses),
            Command::SetDeprecated(interface, addresses) => self.core.stack.set_deprecated(interface, addresses),
            Command::SetRoutes(routes) => self.core.stack.set_routes(routes),
            Command::SetNeighbor(interface, ip, mac) => self.core.stack.set_neighbor(self.core.now, interface, ip, mac),
            Command::AttachRegion(made, reply) => reply.answer(self.attachments.attach(*made, &mut self.core, &self.idle)),
            Command::ContextWakeFd(region, context, wake_fd) => self.attachments.context_wake_fd(region, context, wake_fd),
            Command::Claim(region, slot, claim, reply) => reply.answer(self.attachments.claim(region, slot, claim)),
            Command::Revoke(region, slot) => self.attachments.revoke(region, slot, &mut self.core),
            Command::RulesChanged(reply) => reply.after(|| self.follow_rules()),
            Command::Guard(region, guard, reply) => {
                reply.after(|| self.attachments.guard(region, guard, &mut self.core));
            }
            Command::Rule(region, ruling, reply) => {
                reply.after(|| self.attachments.rule(region, ruling, &mut self.core));
            }
            Command::SetQuotas(user, group) => {
                self.core.ports.limit_users(user.ports);
                self.attachments.set_quotas(user, group, &mut self.core);
            }
            Command::SetLimits(limits) => self.set_limits(&limits),
            Command::SetTcpConfig(config) => self.core.set_tcp_config(*config),
            Command::Handover(command) => self.attachments.hand_over(command, &mut self.core),
            Command::Adoption(command) => self.attachments.obey_adoption(command, &mut self.core),
            Command::QuotaHit(quota, holder) => self.core.metrics.hit(quota, holder),
            Command::ShowUsage(source) => self.attachments.show_usage(source),
            Command::Settle(reply) => {
                self.attachments.serve(&mut self.core);
                reply.answer(());
            }
            Command::ProcessGone(region, process, pid) => {
                self.core.metrics.add(Work::ProcessesGone, 1);
                self.attachments.process_gone(region, process, pid, &mut self.core);
            }
            Command::DetachRegion(region) => self.attachments.detach(region, &mut self.core, &self.idle),
            Command::Finish(limit) => {
                let now = self.core.now;
                self.finish = Some(Finish { patience: now + PATIENCE.min(limit), limit: now + limit });
            }
            Command::Stop => self.stopping = true,
        }
    }

    fn set_limits(&mut self, limits: &WorkerLimits) {
        self.core.stack.set_limits(&limits.stack);
        self.core.limit_orphans(limits.orphans_max);
        self.core.bulk = limits.bulk;
        self.core.multicast_on_stack = limits.multicast_on_stack;
        self.attachments.limit_groups_to(limits.regions_max);
    }
}
