//go:build !linux

package kernel

import "unsafe"

// mapChunk takes size bytes, 64-byte aligned, from the Go heap: these systems choose their page
// sizes themselves.
func mapChunk(size int) (chunk, whole []byte, err error) {
	whole = make([]byte, size+64)
	skip := int(-uintptr(unsafe.Pointer(&whole[0])) % 64)
	return whole[skip : skip+size : skip+size], whole, nil
}

func unmapChunk([]byte) error { return nil }
