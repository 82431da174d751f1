// server serve PORT: net/http for the files of this folder.
// server echo: sends back what comes over its standard input, a connection.
// server [accepts]: the same; with an argument its standard input is a listener.
package main

import (
	"io"
	"net"
	"net/http"
	"os"
)

func check(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

func echo(from io.Reader, to io.Writer) {
	_, err := io.Copy(to, from)
	check(err)
}

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case "serve":
		check(http.ListenAndServe(":"+os.Args[2], http.FileServer(http.Dir("."))))
	case "accepts":
		listener, err := net.FileListener(os.Stdin)
		check(err)
		connection, err := listener.Accept()
		check(err)
		echo(connection, connection)
	case "echo":
		connection, err := net.FileConn(os.Stdin)
		check(err)
		echo(connection, connection)
		check(connection.(*net.TCPConn).CloseWrite())
	default:
		echo(os.Stdin, os.Stdout)
	}
}
