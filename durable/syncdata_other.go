//go:build !linux

package durable

import "os"

// syncData flushes what was written to a file.
func syncData(f *os.File) error { return Sync(f) }
