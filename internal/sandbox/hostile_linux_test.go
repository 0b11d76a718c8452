package sandbox

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/process"
)

// hostileScript defines the hostile programs: functions of Python that print "ESCAPED …" for
// whatever they achieve and "held" at their end.
//
//go:embed testdata/hostile.py
var hostileScript []byte

// hostile are the hostile programs. Those that have no end are killed.
var hostile = []struct {
	name   string
	ends   string // "" for "held"; else "killed", "time", "output" or "any"
	needs  string // a layer; without it the program is not tried
	memory int64  // MiB
}{
	{name: "fork_bomb", ends: "any"},
	{name: "fork_and_exit_bomb", ends: "any"}, // by time, or killed at its limit of CPU
	{name: "thread_bomb", ends: "any"},
	{name: "memory_bomb", ends: "any"},
	{name: "memory_of_many_processes", ends: "any", needs: grouped, memory: 64},
	{name: "shared_memory", ends: "any"},
	{name: "memory_files"},
	{name: "system_v_memory"},
	{name: "memory_of_pipes", ends: "any"},
	{name: "disk_fill", needs: namespaces},
	{name: "inode_fill", needs: namespaces},
	{name: "large_file"},
	{name: "deep_folders", ends: "any", needs: namespaces},
	{name: "forbidden_folder"},
	{name: "endless_output", ends: "output"},
	{name: "endless_errors", ends: "output"},
	{name: "ignored_signals", ends: "time"},
	{name: "sleep_for_ever", ends: "time"},
	{name: "closed_output", ends: "time"},
	{name: "stopped", ends: "any"},
	{name: "execute_itself", ends: "time"},
	{name: "daemons"},
	{name: "daemon_with_output"},
	{name: "daemon_chain"},
	{name: "crash", ends: "killed"},
	{name: "symlink"},
	{name: "hard_link"},
	{name: "inherited_descriptors"},
	{name: "proc_of_others"},
	{name: "read_the_tests"},
	{name: "write_the_reward"},
	{name: "read_accounts"},
	{name: "write_the_system"},
	{name: "devices"},
	{name: "set_user_id"},
	{name: "environment_secrets"},
	{name: "sockets"},
	{name: "unix_sockets"},
	{name: "clone3"},
	{name: "new_namespaces"},
	{name: "mounts"},
	{name: "io_uring"},
	{name: "other_kernel_parts"},
	{name: "trace"},
	{name: "signal_others"},
	{name: "name_others"},
	{name: "act_on_itself"},
	{name: "outlive_the_run"},
	{name: "raise_limits"},
	{name: "other_architectures"},
	{name: "terminal"},
}

// inShort are the hostile programs of short tests.
var inShort = []string{"memory_bomb", "endless_output", "daemons", "symlink", "read_the_tests", "sockets", "clone3", "signal_others",
	"name_others", "act_on_itself"}

// asNobody is set in a process of an unprivileged user: to "few", or to "every" for every hostile program.
const asNobody = "SANDBOX_TEST_AS_NOBODY"

const withoutGroup = "full without a control group"

func TestMain(m *testing.M) {
	if file := os.Getenv(asOwner); file != "" {
		own(file)
	}
	os.Exit(m.Run())
}

// python skips a test where there is no Python that a sandbox can start.
func python(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/usr/bin/python3", "/usr/local/bin/python3"} {
		if exec.Command(path, "-c", "import ctypes, socket").Run() == nil {
			return path
		}
	}
	t.Skip("no python3 in /usr/bin or /usr/local/bin")
	return ""
}

// tiers are the combinations of layers that are tried: everything, and what a container has.
func tiers(t *testing.T) map[string]*Sandbox {
	t.Helper()
	all := map[string]*Sandbox{}
	if full, err := New(Full); err != nil {
		t.Log(err)
	} else {
		all["full"] = full
		if full.with.Cgroup {
			alone := *full
			alone.with.Cgroup = false
			all[withoutGroup] = &alone
		}
	}
	with := layers{}
	for _, l := range Layers() {
		with.Landlock = with.Landlock || l.Name == landlocked && l.Works
		with.Seccomp = with.Seccomp || l.Name == filtered && l.Works
	}
	if with.Landlock && with.Seccomp {
		all["without namespaces"] = &Sandbox{with: with}
	}
	if len(all) == 0 {
		t.Skip("this machine has neither namespaces nor Landlock with seccomp")
	}
	return all
}

// Every hostile program is tried in full and without namespaces; a few also without a control group and as nobody.
// EveryHostileProgram tries the others there.
func TestHostilePrograms(t *testing.T) {
	few, as := testing.Short(), os.Getenv(asNobody)
	tryHostile(t, func(tier, program string) bool {
		switch {
		case as == "every":
			return true
		case few && tier == withoutGroup:
			return false
		}
		return !few && as == "" && tier != withoutGroup || slices.Contains(inShort, program)
	})
}

// EveryHostileProgram tries what TestHostilePrograms and TestHostileProgramsOfNobody leave out.
func EveryHostileProgram(t *testing.T) {
	tryHostile(t, func(tier, program string) bool { return tier == withoutGroup && !slices.Contains(inShort, program) })
	t.Run("nobody", func(t *testing.T) { ofNobody(t, "every") })
}

// tryHostile runs the wanted programs in each tier.
func tryHostile(t *testing.T, wanted func(tier, program string) bool) {
	python := python(t)
	t.Setenv("SECRET_KEY", "SECRET in the environment")
	folder := t.TempDir()
	for dir := folder; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) { // only the sandbox keeps the program out
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	tests, reward := filepath.Join(folder, "tests.txt"), filepath.Join(folder, "reward.txt")
	for path, text := range map[string]string{tests: "SECRET in a file", reward: "unset"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	inherited, err := syscall.Open(tests, syscall.O_RDWR, 0) // without O_CLOEXEC: every child inherits it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	for tier, s := range tiers(t) {
		for _, h := range hostile {
			if !wanted(tier, h.name) || h.needs == namespaces && !s.with.Namespaces || h.needs == grouped && !s.with.Cgroup {
				continue
			}
			wall, cpu := 2*time.Second, time.Second // of those that may run until they are ended
			if h.ends == "" || h.ends == "output" {
				wall, cpu = 20*time.Second, 3*time.Second
			}
			t.Run(tier+"/"+h.name, func(t *testing.T) {
				marker := fmt.Sprintf("hostile-%d-%d", os.Getpid(), time.Now().UnixNano())
				memory := h.memory
				if memory == 0 {
					memory = 96
				}
				r, err := s.Run(t.Context(), &Program{
					Command: []string{python, "hostile.py", h.name, tests, reward, strconv.Itoa(os.Getpid()), marker},
					Files:   map[string][]byte{"hostile.py": hostileScript},
					Limits: Limits{Wall: wall, CPU: cpu, Memory: memory << 20, File: 4 << 20, Disk: 8 << 20,
						Output: 1 << 20, Processes: 24, Inodes: 500},
				})
				if err != nil {
					t.Fatal(err)
				}
				said := string(r.Stdout)
				if len(said) > 2000 {
					said = said[:2000]
				}
				got := "held"
				switch {
				case r.TimedOut:
					got = "time"
				case r.Truncated:
					got = "output"
				case r.Signal != "" || r.OutOfMemory:
					got = "killed"
				case !strings.HasSuffix(said, "held\n"):
					got = "nothing"
				}
				if strings.Contains(said, "ESCAPED") || strings.Contains(string(r.Stderr), "ESCAPED") || strings.Contains(said, "SECRET") {
					t.Errorf("escaped: %s", said)
				}
				if want := h.ends; want != "any" && got != want && (want != "" || got != "held") {
					t.Errorf("ended by %q (exit %d, signal %s), said %s %.1000s", got, r.ExitCode, r.Signal, said, r.Stderr)
				}
				if t.Failed() || testing.Verbose() {
					t.Logf("%s, exit %d %s, %v of CPU: %.300s %.300s", got, r.ExitCode, r.Signal, r.CPU, said, r.Stderr)
				}
				goneWith(t, marker)
				if text, err := os.ReadFile(reward); err != nil || string(text) != "unset" {
					t.Errorf("the reward's file has %q, %v", text, err)
				}
			})
		}
		r, err := s.Run(t.Context(), &Program{Command: []string{"sh", "-c", "cat; echo on"}, Stdin: []byte("goes ")})
		if err != nil || string(r.Stdout) != "goes on\n" {
			t.Errorf("%s, afterwards: %+v, %v", tier, r, err)
		}
		if s.with.Cgroup {
			g, _ := cgroups()
			if left, _ := filepath.Glob(filepath.Join(g.folder, groupPrefix+strconv.Itoa(os.Getpid())+"-*")); len(left) > 0 {
				t.Errorf("groups are left: %s", left)
			}
		}
	}
}

// The same as an unprivileged user.
func TestHostileProgramsOfNobody(t *testing.T) { ofNobody(t, "few") }

// ofNobody runs TestHostilePrograms as an unprivileged user. The child is this binary, which is executed as
// /proc/self/exe because other users may not reach the folder of test binaries.
func ofNobody(t *testing.T, which string) {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv(asNobody) != "" {
		t.Skip("only root can become another user")
	}
	folder, err := os.MkdirTemp("", "hostile")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	const nobody = 65534
	if err := os.Chown(folder, nobody, nobody); err != nil {
		t.Skip(err) // root of a user namespace without other users
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestHostilePrograms$",
		"-test.v="+strconv.FormatBool(testing.Verbose()), "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Env = append(os.Environ(), asNobody+"="+which, "TMPDIR="+folder, "HOME="+folder)
	cmd.Dir = folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if out, err := cmd.CombinedOutput(); err != nil || testing.Verbose() {
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
	}
}

// The programs notice what they achieve: unconfined, they escape.
func TestHostileProgramsEscapeUnconfined(t *testing.T) {
	python, folder := python(t), t.TempDir()
	tests := filepath.Join(folder, "tests.txt")
	if err := os.WriteFile(tests, []byte("SECRET in a file"), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := New(None)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"symlink", "hard_link", "read_the_tests", "sockets", "unix_sockets", "memory_files", "shared_memory",
		"outlive_the_run"} {
		r, err := s.Run(t.Context(), &Program{
			Command: []string{python, "hostile.py", name, tests, filepath.Join(folder, "reward.txt"), strconv.Itoa(os.Getpid()), "none"},
			Files:   map[string][]byte{"hostile.py": hostileScript},
		})
		if err != nil || !strings.Contains(string(r.Stdout), "ESCAPED") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// A person who sets the variable by which sandboxes start gets an error, and nothing runs.
func TestStrayRoleIsAnError(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{process.RoleVariable(role)}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "for the sandbox of a run") {
		t.Errorf("%v: %s", err, out)
	}
}

// goneWith waits until no process has the marker in its arguments.
func goneWith(t *testing.T, marker string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := marked(marker)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("left running: %s", left)
			return
		}
	}
}

// eventuallyGone waits until no path matches a pattern. It returns those that stay.
func eventuallyGone(pattern string) (left []string) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if left, _ = filepath.Glob(pattern); len(left) == 0 {
			return nil
		}
	}
	return left
}

// marked returns the processes that have the marker in their arguments.
func marked(marker string) (left []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		text, _ := os.ReadFile(path)
		if strings.Contains(string(text), marker) {
			left = append(left, filepath.Dir(path))
		}
	}
	return left
}

// asOwner names the variable with the marker of the program that own runs.
const asOwner = "SANDBOX_TEST_OWNER"

func own(marker string) {
	isolation := Full
	if strings.HasSuffix(marker, "-supervised") {
		isolation = Best
	}
	s, err := New(isolation)
	if err == nil {
		s.with.Namespaces = isolation == Full
		_, err = s.Run(context.Background(), &Program{Command: []string{"sh", "-c", "(setsid sleep 60 &) & sleep 50; : " + marker, marker},
			Limits: Limits{Wall: time.Minute}})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A run that is killed leaves nothing of its sandboxes running.
func TestKilledRunLeavesNothing(t *testing.T) {
	for _, tier := range []string{"full", "supervised"} {
		if _, err := New(Full); err != nil {
			t.Skip(err)
		}
		marker := fmt.Sprintf("owner-%d-%s", os.Getpid(), tier)
		run := exec.CommandContext(t.Context(), os.Args[0])
		temporary := t.TempDir()
		run.Env = append(os.Environ(), asOwner+"="+marker, "TMPDIR="+temporary)
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); len(marked(marker)) == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		}
		if len(marked(marker)) == 0 {
			t.Error("the program did not start")
		}
		if err := run.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = run.Wait()
		goneWith(t, marker)
		if left := eventuallyGone(filepath.Join(temporary, "trinity-sandbox-*")); len(left) > 0 {
			t.Errorf("%s: a killed run leaves %s", tier, left)
		}
	}
}
