package kernel

func nativeSets() []*kernels {
	neon.int8 = &portableInt8
	return []*kernels{&neon}
}
