//go:build !linux

package process

import "runtime/debug"

// allowed says how much memory a confined function gets.
func allowed(int64) string { return "there is" }

// Resident returns 0: the system does not tell what memory a program has.
func (x *Process) Resident() int64 { return 0 }

// limitMemory makes the collector run early. The system has no limit to set.
func limitMemory(bytes uint64) error {
	debug.SetMemoryLimit(int64(bytes / 4 * 3))
	return nil
}
