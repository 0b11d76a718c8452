//go:build !linux

package process

import "runtime/debug"

// limitMemory makes the collector run early. The system has no limit to set.
func limitMemory(bytes uint64) error {
	debug.SetMemoryLimit(int64(bytes / 4 * 3))
	return nil
}
