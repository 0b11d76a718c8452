package sandbox

import (
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// denied are the system calls that a program does not get: those that reach beyond it, those that
// take memory which no limit counts, and those of which the kernel's defects were many. A call that
// the library does not know, such as one of a newer kernel, is denied too.
var denied = []string{
	// network; socketpair is below
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
	// they have conditions below
	"clone", "clone3", "prctl", "mmap", "mmap2", "socketpair",
}

// byPath are calls that change files by path, or watch them, which Landlock does not see. In
// namespaces the program sees only files of its own.
var byPath = []string{"chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat",
	"inotify_add_watch", "file_setattr"}

// signals are the calls by which a process signals another one.
var signals = []string{"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"}

const (
	newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
		unix.CLONE_NEWCGROUP
	notAStream = 0xe // the bits of the types of sockets other than SOCK_STREAM
	anInt      = 1<<32 - 1
)

// filterCalls denies system calls to this thread, and to the program that it becomes. The kernel
// reads an int from the low half of an argument, so conditions on one also look at the high half.
func filterCalls(alone bool) error {
	machine, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	not := denied
	if !alone {
		not = append(slices.Clone(denied), byPath...)
	}
	if version, _ := landlockVersion(); !alone && version < 6 { // Landlock does not bound signals
		not = append(not, signals...)
	}
	var allowed []string
	for name := range machine.SyscallNames {
		if !slices.Contains(not, name) {
			allowed = append(allowed, name)
		}
	}
	slices.Sort(allowed)
	mapping := "mmap"
	if _, ok := machine.SyscallNames[mapping]; !ok {
		mapping = "mmap2"
	}
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionErrno, // EPERM, also of another architecture's calls
			Syscalls: []seccomp.SyscallGroup{
				{Action: seccomp.ActionAllow, Names: allowed, NamesWithCondtions: []seccomp.NameWithConditions{
					{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsNotSet, Value: newNamespaces}}},
					{Name: "prctl", Conditions: seccomp.ArgumentConditions{ // it must die with the run
						{Argument: 0, Operation: seccomp.LessOrEqual, Value: anInt},
						{Argument: 0, Operation: seccomp.NotEqual, Value: unix.PR_SET_PDEATHSIG},
					}},
					{Name: mapping, Conditions: seccomp.ArgumentConditions{{Argument: 3, Operation: seccomp.BitsNotSet, Value: unix.MAP_ANONYMOUS}}},
					{Name: mapping, Conditions: seccomp.ArgumentConditions{{Argument: 3, Operation: seccomp.BitsNotSet, Value: unix.MAP_SHARED}}},
					{Name: "socketpair", Conditions: seccomp.ArgumentConditions{
						{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_UNIX},
						{Argument: 1, Operation: seccomp.BitsNotSet, Value: notAStream},
					}},
				}},
				{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}}, // C libraries then call clone
			},
		},
	})
}
