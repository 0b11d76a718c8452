package kernel

func nativeSets() []*kernels { return []*kernels{&neon} }
