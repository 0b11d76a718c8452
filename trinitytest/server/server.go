//go:build unix

package server

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a server that belongs to one test.
type Server struct {
	URL string // of its database; "" if it has none

	dir   string
	owner *syscall.Credential // nil is the user who runs the test
	start []string
	hello string   // greeting that asks whether it is ready; "" if the server speaks first
	ready []string // possible beginnings of its answer
	cmd   *exec.Cmd
	port  int
}

// newServer creates a server's directory. Its owner is not root, because servers refuse to run as
// root.
func newServer(t *testing.T, owners ...string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "trinity-server") // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{dir: dir, port: freePort(t)}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Getuid() != 0 {
		return s
	}
	for _, name := range append(owners, "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		s.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Skip("root runs the test, and there is no user nobody to run the server")
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// program finds a program in PATH or in the usual places. It skips the test if the program is
// missing.
func program(t *testing.T, name string, places ...string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, pattern := range places {
		if found, _ := filepath.Glob(filepath.Join(pattern, name)); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	t.Skipf("no %s: it is not installed", name)
	return ""
}

func (s *Server) command(args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "HOME="+s.dir, "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true}
	return cmd
}

// prepare runs a program that creates the server's files.
func (s *Server) prepare(t *testing.T, args ...string) {
	t.Helper()
	if out, err := s.command(args).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// run starts the server by a command and kills it at the end of the test.
func (s *Server) run(t *testing.T, args ...string) *Server {
	t.Helper()
	s.start = args
	t.Cleanup(func() {
		if s.cmd != nil {
			s.Kill(t)
		}
	})
	s.Start(t)
	return s
}

// Start starts the server, also after Kill, and waits until it is ready. Some servers accept
// connections earlier, but only to refuse requests.
func (s *Server) Start(t *testing.T) {
	t.Helper()
	for range 20 { // a killed process may hold the files for a moment
		if s.starts(t) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	said, _ := os.ReadFile(s.log())
	t.Fatalf("%s does not start\n%s", s.start[0], said)
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

func (s *Server) starts(t *testing.T) bool {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd = s.command(s.start)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(ended) }(s.cmd)
	for !s.answers() {
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

// Freeze stops the server and its children until Kill. They still accept connections, but answer
// nothing.
func (s *Server) Freeze(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	pid := s.cmd.Process.Pid
	for _, of := range append(s.children(), strconv.Itoa(pid)) {
		for end := time.Now().Add(10 * time.Second); !stands(of); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("process %s of the server does not stop", of)
			}
		}
	}
}

// stands reports whether no thread of a process runs. The system stops them one after another. Without
// /proc nothing is known.
func stands(pid string) bool {
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/stat")
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if _, after, ok := strings.Cut(string(stat), ") "); err == nil && ok && after[0] != 'T' && after[0] != 'Z' {
			return false
		}
	}
	return true
}

// children are the processes that the server has started: PostgreSQL's have groups of their own.
func (s *Server) children() []string {
	pid := s.cmd.Process.Pid
	all, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	return strings.Fields(string(all))
}

// signal sends a signal to the server and its children.
func (s *Server) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	pid := s.cmd.Process.Pid
	if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil { // it must not start children that the next line misses
		t.Fatal(err)
	}
	children := s.children()
	if err := syscall.Kill(-pid, signal); err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, signal) // it may have exited
		}
	}
}

// Kill kills the server and its children. Unlike a power cut, it does not lose data that the system
// has not written to the disk.
func (s *Server) Kill(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGKILL)
	for s.listens() {
		time.Sleep(time.Millisecond)
	}
	s.cmd = nil
}

func (s *Server) listens() bool {
	conn, err := net.Dial("tcp", s.Address())
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// answers reports whether the server answers a greeting as ready.
func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Address(), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	answer := make([]byte, 16)
	if _, err := conn.Write([]byte(s.hello)); err != nil {
		return false
	}
	n, err := conn.Read(answer)
	return err == nil && slices.ContainsFunc(s.ready, func(begin string) bool { return strings.HasPrefix(string(answer[:n]), begin) })
}

// Address returns the server's host and port.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Postgres starts a PostgreSQL server.
func Postgres(t *testing.T) *Server {
	t.Helper()
	const debian = "/usr/lib/postgresql/*/bin"
	initdb, postgres := program(t, "initdb", debian), program(t, "postgres", debian)
	s := newServer(t, "postgres")
	data := filepath.Join(s.dir, "data")
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.prepare(t, initdb, "--no-sync", "--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile="+password,
		"--username=trinity", "--encoding=UTF8", "--no-locale", data)
	s.URL = fmt.Sprintf("postgresql+psycopg2://trinity:secret@%s/postgres", s.Address())
	s.hello = "\x00\x00\x00\x28\x00\x03\x00\x00user\x00trinity\x00database\x00postgres\x00\x00" // protocol version 3, after the length
	s.ready = []string{"R"}                                                                     // asks for the password
	return s.run(t, postgres, "-D", data, "-p", strconv.Itoa(s.port), "-k", s.dir, "-h", "127.0.0.1")
}

// MariaDB starts a MariaDB server.
func MariaDB(t *testing.T) *Server {
	t.Helper()
	const debian = "/usr/sbin"
	install, mariadbd := program(t, "mariadb-install-db"), program(t, "mariadbd", debian)
	s := newServer(t, "mysql")
	data := filepath.Join(s.dir, "data")
	tmp := "--tmpdir=" + s.dir // a starting server removes temporary tables of others from a shared directory
	s.prepare(t, install, "--no-defaults", tmp, "--datadir="+data, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--innodb-log-file-size=8M")
	init := filepath.Join(s.dir, "init.sql")
	const sql = "CREATE DATABASE IF NOT EXISTS rft;\nCREATE USER IF NOT EXISTS trinity@'%' IDENTIFIED BY 'secret';\nGRANT " +
		"ALL ON rft.* TO trinity@'%';\n"
	if err := os.WriteFile(init, []byte(sql), 0o644); err != nil {
		t.Fatal(err)
	}
	s.ready = []string{""}
	s.URL = fmt.Sprintf("mysql+pymysql://trinity:secret@%s/rft", s.Address())
	return s.run(t, mariadbd, "--no-defaults", tmp, "--datadir="+data, "--port="+strconv.Itoa(s.port),
		"--bind-address=127.0.0.1", "--socket="+filepath.Join(s.dir, "s"),
		"--init-file="+init, "--innodb-log-file-size=8M", "--skip-log-bin", "--skip-name-resolve")
}
