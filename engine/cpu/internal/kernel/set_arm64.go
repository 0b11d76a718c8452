package kernel

import "golang.org/x/sys/cpu"

func nativeSets() []*kernels {
	neon.int8 = &neonInt8
	if cpu.ARM64.HasASIMDDP {
		neon.int8 = &neonDotInt8
	}
	return []*kernels{&neon}
}
