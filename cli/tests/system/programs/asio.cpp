// asio PORT: sends back what comes, with three threads that share a context.
#include <array>
#include <asio.hpp>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

using asio::ip::tcp;

class Echo : public std::enable_shared_from_this<Echo> {
public:
    explicit Echo(tcp::socket socket) : socket_(std::move(socket)) {}

    void read() {
        auto self = shared_from_this();
        socket_.async_read_some(asio::buffer(bytes_), [this, self](std::error_code error, std::size_t count) {
            if (error == asio::error::eof) {
                socket_.shutdown(tcp::socket::shutdown_send, error);
            } else if (!error) {
                write(count);
            }
        });
    }

private:
    void write(std::size_t count) {
        auto self = shared_from_this();
        asio::async_write(socket_, asio::buffer(bytes_, count), [this, self](std::error_code error, std::size_t) {
            if (!error) read();
        });
    }

    tcp::socket socket_;
    std::array<char, 32768> bytes_;
};

static void accept(asio::io_context &context, tcp::acceptor &acceptor) {
    acceptor.async_accept([&](std::error_code error, tcp::socket socket) {
        if (!error) std::make_shared<Echo>(std::move(socket))->read();
        accept(context, acceptor);
    });
}

int main(int count, char **arguments) {
    asio::io_context context;
    asio::signal_set signals(context, SIGTERM);
    signals.async_wait([&](std::error_code, int) { context.stop(); });
    tcp::acceptor acceptor(context, tcp::endpoint(tcp::v4(), std::atoi(arguments[count - 1])));
    accept(context, acceptor);
    std::vector<std::thread> threads;
    for (int number = 0; number < 2; ++number) threads.emplace_back([&] { context.run(); });
    context.run();
    for (auto &thread : threads) thread.join();
}
