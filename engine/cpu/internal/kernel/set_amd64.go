package kernel

import "golang.org/x/sys/cpu"

func nativeSets() (sets []*kernels) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return nil
	}
	avx2.int8, avx512.int8 = &avx2Int8, &avx2Int8
	if cpu.X86.HasAVX512VNNI {
		avx512.int8 = &vnniInt8
	}
	if cpu.X86.HasAVX512F {
		sets = append(sets, &avx512)
	}
	return append(sets, &avx2)
}
