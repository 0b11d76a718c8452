//go:build !linux

package durable

import "os"

// syncData flushes the content of a file.
func syncData(f *os.File) error { return Sync(f) }
