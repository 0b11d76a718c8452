package sandbox

import (
	"encoding/binary"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// verdict returns what the kernel does with a call: 0 allows it, else the number of the error.
func verdict(t *testing.T, vm *bpf.VM, machine *arch.Info, call string, arguments ...uint64) int {
	t.Helper()
	number, ok := machine.SyscallNames[call]
	if !ok {
		t.Fatalf("%s has no call %q", machine.Name, call)
	}
	data := make([]byte, 64) // bpf.VM reads the machine's integers from the network's order
	binary.BigEndian.PutUint32(data, uint32(number))
	binary.BigEndian.PutUint32(data[4:], uint32(machine.ID))
	for i, a := range arguments {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	if uint32(got) == unix.SECCOMP_RET_ALLOW {
		return 0
	}
	return got &^ unix.SECCOMP_RET_ERRNO
}

// The filters of both machines deny every call that names another process, where there are no
// namespaces, and allow the call about the caller.
func TestFilterNamesNoOtherProcess(t *testing.T) {
	const other, high = 4711, 1 << 32
	minus := func(pid int64, kind int64) uint64 { return uint64(^pid<<3 | kind) } // a clock of the CPU time of a process
	for _, machine := range []*arch.Info{arch.X86_64, arch.AARCH64, arch.ARM, arch.I386} {
		vms := map[bool]*bpf.VM{}
		for _, scoped := range []bool{true, false} {
			vm, err := bpf.NewVM(filter(machine, false, scoped))
			if err != nil {
				t.Fatal(err)
			}
			vms[scoped] = vm
		}
		type call struct {
			name      string
			arguments []uint64
			allowed   bool
		}
		var all []call
		add := func(allowed bool, name string, arguments ...uint64) {
			if _, ok := machine.SyscallNames[name]; ok {
				all = append(all, call{name, arguments, allowed})
			}
		}
		for _, name := range []string{"prlimit64", "sched_setaffinity", "sched_getaffinity", "sched_setparam", "sched_getparam",
			"sched_setscheduler", "sched_getscheduler", "sched_setattr", "sched_getattr", "sched_rr_get_interval", "get_robust_list",
			"getpgid", "getsid"} {
			add(true, name, 0, 1, 2)
			add(true, name, high, 1, 2) // the kernel reads the low half
			for _, pid := range []uint64{1, other, other | high, ^uint64(other) + 1, 56, 53, 157, 9} {
				add(false, name, pid, 0, 0)
			}
		}
		for _, name := range []string{"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp",
			"migrate_pages", "move_pages", "pidfd_open", "pidfd_getfd", "capget", "perf_event_open", "setns"} {
			add(false, name, other, other)
		}
		add(true, "setpgid", 0, 0)
		add(false, "setpgid", other, 0)
		add(false, "setpgid", 0, other)
		for _, name := range []string{"setpriority", "getpriority"} {
			add(true, name, 0, 0, 5)
			add(false, name, 0, other, 5)
			add(false, name, 1, 0, 5) // the group
			add(false, name, 2, 0, 5) // the user
		}
		for _, name := range []string{"ioprio_set", "ioprio_get"} {
			add(true, name, 1, 0, 5)
			add(false, name, 1, other, 5)
			add(false, name, 2, 0, 5)
			add(false, name, 3, 0, 5)
		}
		for _, name := range []string{"clock_gettime", "clock_getres", "clock_nanosleep", "timer_create"} {
			for kind := range int64(3) {
				add(true, name, minus(0, kind))
				add(true, name, minus(0, kind|4))
				add(false, name, minus(other, kind))
				add(false, name, minus(other, kind)&anInt)
			}
			add(true, name, unix.CLOCK_MONOTONIC)
			add(true, name, unix.CLOCK_PROCESS_CPUTIME_ID)
		}
		for _, command := range []uint64{unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG, unix.F_SETOWN | high} {
			add(false, "fcntl", 3, command, other)
			add(false, "fcntl64", 3, command, other)
		}
		add(true, "fcntl", 3, unix.F_GETFL)
		add(true, "fcntl", 3, unix.F_DUPFD_CLOEXEC, other)
		for _, command := range []uint64{0x8901, 0x8902, unix.TIOCSPGRP, 0x8901 | high} {
			add(false, "ioctl", 3, command, 0)
		}
		add(true, "ioctl", 1, unix.TCGETS)
		add(false, "prctl", unix.PR_SCHED_CORE, 2, other)
		add(false, "prctl", unix.PR_SET_PDEATHSIG, 0)
		add(true, "prctl", unix.PR_SET_NAME, 0)
		add(true, "wait4", other)
		add(true, "waitid", unix.P_PID, other)
		// The value of an argument that fails its condition must not pass for the number of another call.
		add(false, "prlimit64", uint64(machine.SyscallNames["socketpair"]), 0)
		add(false, "setpriority", unix.AF_UNIX, uint64(machine.SyscallNames["socketpair"]), 0)
		for _, c := range all {
			for scoped, vm := range vms {
				if got := verdict(t, vm, machine, c.name, c.arguments...); (got == 0) != c.allowed {
					t.Errorf("%s, signals scoped %v: %s%#x: error %d", machine.Name, scoped, c.name, c.arguments, got)
				}
			}
		}
		for _, name := range []string{"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"} {
			if verdict(t, vms[false], machine, name, other, 9) == 0 || verdict(t, vms[true], machine, name, other, 9) != 0 {
				t.Errorf("%s: %s must be allowed only where Landlock bounds it", machine.Name, name)
			}
		}
		if got := verdict(t, vms[true], machine, "sched_getaffinity", other); got != int(unix.ENOSYS) {
			t.Errorf("%s: error %d of sched_getaffinity, which C libraries do without if it is unknown", machine.Name, got)
		}
	}
}

// In namespaces a program names only its own processes, so these calls need no condition.
func TestFilterInNamespaces(t *testing.T) {
	for _, machine := range []*arch.Info{arch.X86_64, arch.AARCH64} {
		vm, err := bpf.NewVM(filter(machine, true, false))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"prlimit64", "kill", "setpgid", "sched_setaffinity", "fcntl"} {
			if got := verdict(t, vm, machine, call, 2, unix.F_SETOWN); got != 0 {
				t.Errorf("%s: error %d of %s", machine.Name, got, call)
			}
		}
		if verdict(t, vm, machine, "socket", 2, 1) != int(unix.EPERM) || verdict(t, vm, machine, "clone3") != int(unix.ENOSYS) ||
			verdict(t, vm, machine, "clone", unix.CLONE_NEWUSER) == 0 || verdict(t, vm, machine, "clone", 17) != 0 {
			t.Errorf("%s: socket, clone3 or clone", machine.Name)
		}
	}
}
