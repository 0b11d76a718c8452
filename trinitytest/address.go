package trinitytest

import (
	"net"
	"testing"
)

// FreeAddress returns an address of this machine, host and port, at which nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
