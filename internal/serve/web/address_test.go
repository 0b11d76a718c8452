package web_test

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/serve/web"
)

// A server that listens at all addresses prints one that works on its machine, and one for others.
func TestAddressesOfServers(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	for listen, want := range map[string]string{
		"127.0.0.1:0": "http://127.0.0.1:PORT/v1",
		"0.0.0.0:0":   "http://127.0.0.1:PORT/v1, from other machines at http://" + host + ":PORT/v1",
		"[::]:0":      "http://127.0.0.1:PORT/v1, from other machines at http://" + host + ":PORT/v1",
	} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Log("this machine has no such address:", err)
			continue
		}
		port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		if got := strings.ReplaceAll(web.Addresses(l), port, "PORT"); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
