package sampler

import "math/bits"

// philox is Philox4x32-10 (Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011): 128 random bits for a counter and a key.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	const (
		mul0, mul1   = 0xD2511F53, 0xCD9E8D57
		weyl0, weyl1 = 0x9E3779B9, 0xBB67AE85
	)
	for range 10 {
		hi0, lo0 := bits.Mul32(mul0, counter[0])
		hi1, lo1 := bits.Mul32(mul1, counter[2])
		counter = [4]uint32{hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0}
		key[0] += weyl0
		key[1] += weyl1
	}
	return counter
}

// Streams of random numbers of one seed.
const (
	ofCompletion = iota
	ofPrompt
)

// uniform returns the random number in [0, 1) that draws the token at a position of a completion, or of
// draws of a prompt; position 0 is the first token.
func uniform(seed uint64, completion, position int, stream uint32) float64 {
	counter := [4]uint32{uint32(position), uint32(completion), uint32(uint64(completion) >> 32), stream}
	r := philox(counter, [2]uint32{uint32(seed), uint32(seed >> 32)})
	return float64((uint64(r[0])<<32|uint64(r[1]))>>11) * 0x1p-53
}
