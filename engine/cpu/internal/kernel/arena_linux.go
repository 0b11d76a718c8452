package kernel

import (
	"syscall"
	"unsafe"
)

// madvHugepage is MADV_HUGEPAGE of madvise(2).
const madvHugepage = 14

// mapChunk reserves size bytes, a multiple of hugePage, aligned to hugePage so that huge pages can
// back all of it. whole is the argument for unmapChunk.
func mapChunk(size int) (chunk, whole []byte, err error) {
	whole, err = syscall.Mmap(-1, 0, size+hugePage, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	// Refused on kernels without transparent huge pages: ordinary pages serve as well, only slower.
	_ = syscall.Madvise(whole, madvHugepage)
	skip := int(-uintptr(unsafe.Pointer(&whole[0])) % hugePage)
	return whole[skip : skip+size : skip+size], whole, nil
}

func unmapChunk(whole []byte) error { return syscall.Munmap(whole) }
