package sandbox

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// denied are the system calls that a program does not get: those that reach beyond it, those that
// take memory which no limit counts, and those of which the kernel's defects were many. A call that
// the library does not know, such as one of a newer kernel, is denied too.
var denied = []string{
	// network; socketpair has a condition
	"socket", "connect", "bind", "listen", "accept", "accept4",
	// other processes
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd", "move_pages",
	"migrate_pages",
	// namespaces and mounts
	"unshare", "setns", "chroot", "pivot_root", "mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "open_tree_attr",
	"fsopen", "fsconfig", "fsmount", "fspick", "statmount", "listmount", "name_to_handle_at", "open_by_handle_at",
	// the machine
	"reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "swapon", "swapoff",
	"acct", "quotactl", "quotactl_fd", "settimeofday", "stime", "clock_settime", "clock_adjtime", "clock_adjtime64", "clock_settime64",
	"adjtimex", "sethostname", "setdomainname", "syslog", "iopl", "ioperm", "modify_ldt", "vhangup", "uselib", "personality", "nfsservctl",
	"_sysctl", "sysfs", "lookup_dcookie", "lsm_set_self_attr",
	// parts of the kernel with many ways in
	"bpf", "perf_event_open", "userfaultfd", "fanotify_init", "fanotify_mark", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"add_key", "request_key", "keyctl", "vmsplice",
	// memory that is not the process's
	"memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "shmdt", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "mq_open",
	"setxattr", "lsetxattr", "fsetxattr", "setxattrat",
	"clone3",
}

// byPath are calls that change files by path, or watch them, which Landlock does not see. In
// namespaces the program sees only files of its own.
var byPath = []string{"chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat",
	"inotify_add_watch", "file_setattr"}

// byProcess are calls that name another process and need no operand to be harmless. In namespaces
// the program sees only processes of its own.
var byProcess = []string{"pidfd_open", "capget"}

// signals are the calls by which a process signals another one.
var signals = []string{"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"}

// condition is a test of the low half of an argument: its bits in mask equal value, or do not. The
// kernel reads ids, commands and types from the low half, and the flags in question are there.
type condition struct {
	argument    int
	mask, value uint32
	not         bool
}

// conditional is a call that is allowed if all conditions of one of its cases hold.
type conditional struct {
	call  string
	errno unix.Errno // if none holds; 0 is EPERM
	cases [][]condition
}

const (
	newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
		unix.CLONE_NEWCGROUP
	notAStream = 0xe // the bits of the types of sockets other than SOCK_STREAM
	anInt      = 1<<32 - 1
)

// always are the calls with conditions in every sandbox.
var always = []conditional{
	{call: "clone", cases: [][]condition{{{0, newNamespaces, 0, false}}}},
	// It must die with the run, and shares no core with other processes.
	{call: "prctl", cases: [][]condition{{{0, anInt, unix.PR_SET_PDEATHSIG, true}, {0, anInt, unix.PR_SCHED_CORE, true}}}},
	{call: "mmap", cases: [][]condition{{{3, unix.MAP_ANONYMOUS, 0, false}}, {{3, unix.MAP_SHARED, 0, false}}}},
	{call: "mmap2", cases: [][]condition{{{3, unix.MAP_ANONYMOUS, 0, false}}, {{3, unix.MAP_SHARED, 0, false}}}},
	{call: "socketpair", cases: [][]condition{{{0, anInt, unix.AF_UNIX, false}, {1, notAStream, 0, false}}}},
}

// ownID allows a call whose first argument is the id of a process if that is 0, the caller itself.
func ownID(call string) conditional {
	return conditional{call, 0, [][]condition{{{0, anInt, 0, false}}}}
}

// ownWho allows a call whose first argument says process, not group or user, and whose second is 0: the
// caller itself.
func ownWho(call string, process uint32) conditional {
	return conditional{call, 0, [][]condition{{{0, anInt, process, false}, {1, anInt, 0, false}}}}
}

// ownClock allows a call about a clock that is not the CPU time of another process. A clock below 0
// has the id of a process, or 0 for the caller, from bit 3 on, with all bits flipped.
func ownClock(call string) conditional {
	return conditional{call, 0, [][]condition{{{0, 1 << 31, 0, false}}, {{0, 0xfffffff8, 0xfffffff8, false}}}}
}

// onItself are the calls that may name a process, with the operands that name the caller. They hold
// without namespaces, where the run is a process of the same user.
var onItself = []conditional{
	ownID("prlimit64"), ownID("sched_setaffinity"), ownID("sched_setparam"), ownID("sched_getparam"), ownID("sched_setscheduler"),
	ownID("sched_getscheduler"), ownID("sched_setattr"), ownID("sched_getattr"), ownID("sched_rr_get_interval"),
	ownID("sched_rr_get_interval_time64"), ownID("get_robust_list"), ownID("getpgid"), ownID("getsid"),
	// A C library asks for the processors of each thread by its id, and does without where the call is unknown.
	{"sched_getaffinity", unix.ENOSYS, ownID("").cases},
	ownWho("setpgid", 0), ownWho("setpriority", unix.PRIO_PROCESS), ownWho("getpriority", unix.PRIO_PROCESS),
	ownWho("ioprio_set", 1), ownWho("ioprio_get", 1), // 1 is IOPRIO_WHO_PROCESS
	ownClock("clock_gettime"), ownClock("clock_gettime64"), ownClock("clock_getres"), ownClock("clock_getres_time64"),
	ownClock("clock_nanosleep"), ownClock("clock_nanosleep_time64"), ownClock("timer_create"),
	{call: "fcntl", cases: [][]condition{noOwner}}, {call: "fcntl64", cases: [][]condition{noOwner}},
	{call: "ioctl", cases: [][]condition{{{1, anInt, fioSetOwn, true}, {1, anInt, siocSetGroup, true}, {1, anInt, unix.TIOCSPGRP, true}}}},
}

// noOwner keeps a program from sending the signals of a file to another process.
var noOwner = []condition{{1, anInt, unix.F_SETOWN, true}, {1, anInt, unix.F_SETOWN_EX, true}, {1, anInt, unix.F_SETSIG, true}}

// Commands of ioctl that name who gets the signals of a socket: FIOSETOWN and SIOCSPGRP.
const fioSetOwn, siocSetGroup = 0x8901, 0x8902

// filter returns the program by which the kernel decides on system calls. alone says that the
// program has namespaces; scoped that Landlock bounds its signals.
func filter(machine *arch.Info, alone, scoped bool) []bpf.Instruction {
	not, conditionals := denied, always
	if !alone {
		not, conditionals = slices.Concat(denied, byPath, byProcess), slices.Concat(always, onItself)
		if !scoped {
			not = append(not, signals...)
		}
	}
	const numberAt, archAt, perm = 0, 4, uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	all := []bpf.Instruction{
		bpf.LoadAbsolute{Off: archAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1},
		bpf.RetConstant{Val: perm}, // another architecture's calls
		bpf.LoadAbsolute{Off: numberAt, Size: 4},
	}
	when := func(name string, then ...bpf.Instruction) { // the accumulator has the number of the call
		if number, ok := machine.SyscallNames[name]; ok {
			all = append(all, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(number), SkipTrue: uint8(len(then))})
			all = append(all, then...)
		}
	}
	for _, c := range conditionals {
		not = append(slices.Clip(not), c.call)
		var then []bpf.Instruction
		for _, conditions := range c.cases {
			then = append(then, checks(conditions)...)
		}
		failure := perm
		if c.errno != 0 {
			failure = uint32(unix.SECCOMP_RET_ERRNO) | uint32(c.errno)
		}
		when(c.call, append(then, bpf.RetConstant{Val: failure})...) // it ends here, so the accumulator may change
	}
	when("clone3", bpf.RetConstant{Val: uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)}) // C libraries then call clone
	var allowed []string
	for name := range machine.SyscallNames {
		if !slices.Contains(not, name) {
			allowed = append(allowed, name)
		}
	}
	slices.Sort(allowed)
	for _, name := range allowed {
		when(name, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	}
	return append(all, bpf.RetConstant{Val: perm})
}

// checks returns instructions that allow the call if all conditions hold, and go on behind themselves
// otherwise.
func checks(all []condition) (program []bpf.Instruction) {
	const argumentsAt, size, each = 16, 8, 3
	for i, c := range all {
		skip := uint8((len(all)-i-1)*each + 1) // the other conditions and the verdict
		cond := bpf.JumpNotEqual
		if c.not {
			cond = bpf.JumpEqual
		}
		program = append(program, // the machines that the library knows have the low half first
			bpf.LoadAbsolute{Off: uint32(argumentsAt + size*c.argument), Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask},
			bpf.JumpIf{Cond: cond, Val: c.value, SkipTrue: skip})
	}
	return append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

// filterCalls denies system calls to this thread, and to the program that it becomes. It may get no
// new privileges.
func filterCalls(on layers) error {
	machine, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	version, _ := landlockVersion()
	raw, err := bpf.Assemble(filter(machine, on.Namespaces, on.Landlock && version >= signalsScoped))
	if err != nil {
		return err
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	load := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&load))); errno != 0 {
		return fmt.Errorf("cannot load the filter of system calls: %w", errno)
	}
	return nil
}
