//go:build unix

package server

import (
	"fmt"
	"strconv"
	"testing"
)

// Redis starts a Redis server that flushes every write, unless more settings say otherwise.
func Redis(t *testing.T, more ...string) *Server {
	t.Helper()
	program := program(t, "redis-server", "/usr/bin", "/usr/local/bin")
	s := newServer(t, "redis")
	s.URL = fmt.Sprintf("redis://%s/3", s.Address())
	s.hello, s.ready = "PING\r\n", []string{"+PONG", "-NOAUTH"}
	return s.run(t, append([]string{program, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"}, more...)...)
}
