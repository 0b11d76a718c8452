package sandbox

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Layers tries the layers on this machine, once in a process.
func Layers() []Layer { return tried() }

var tried = sync.OnceValue(func() []Layer {
	all := []Layer{
		{Name: namespaces, Gives: "no other files, no network, no process survives; bounded disk", Note: "user, pid, mount, net, ipc, uts"},
		{Name: landlocked, Gives: "file rights; by version TCP ports, signals"},
		{Name: filtered, Gives: "no sockets, ptrace, mounts, namespaces, io_uring, bpf, keys", Note: "a filter of system calls"},
		{Name: limited, Gives: "CPU, memory and file size of each process, number of processes", Works: true, Note: "rlimits"},
		{Name: grouped, Gives: "memory of all processes together"},
	}
	for i, with := range []layers{{Namespaces: true}, {Landlock: true}, {Seccomp: true}} {
		with.Namespaces = with.Namespaces || all[0].Works // they are tried first
		s := &Sandbox{with: with}
		ctx, cancel := context.WithTimeout(context.Background(), patience+time.Second)
		_, err := s.start(ctx, &Program{Limits: Limits{Wall: patience, Output: 1 << 16, Disk: 1 << 20, Inodes: 100}}, true)
		cancel()
		if all[i].Works = err == nil; err != nil {
			all[i].Note = err.Error()
		}
	}
	if version, err := landlockVersion(); err == nil && all[1].Works {
		all[1].Note = fmt.Sprintf("version %d of its interface", version)
	}
	found, err := cgroups()
	if all[4].Works = err == nil; err != nil {
		all[4].Note = err.Error()
	} else {
		all[4].Note = fmt.Sprintf("version %d, in %s", found.version, found.folder)
	}
	return all
})
