package served

// places remember which server computed which beginnings of sequences, so that a group or a
// conversation returns to the server that has them in its KV cache.
type places struct {
	now, before map[uint64]*server // by the hash of a beginning
}

const (
	blockTokens = 16      // beginnings have a multiple of this many tokens
	mostPlaces  = 1 << 16 // in each map
)

// remember notes that a server has computed a sequence.
func (p *places) remember(tokens []int32, s *server) {
	eachBeginning(tokens, func(_ int, hash uint64) {
		if len(p.now) >= mostPlaces || p.now == nil {
			p.before, p.now = p.now, map[uint64]*server{}
		}
		p.now[hash] = s
	})
}

// find returns the server that has computed the longest beginning of a sequence, if that is at least
// half of it; else nil. A shorter beginning is often a system prompt, which every server has.
func (p *places) find(tokens []int32) (s *server) {
	eachBeginning(tokens, func(n int, hash uint64) {
		found := p.now[hash]
		if found == nil {
			found = p.before[hash]
		}
		if found != nil && 2*n >= len(tokens) {
			s = found
		}
	})
	return s
}

// eachBeginning calls visit with the length and the hash (FNV-1a) of each beginning, from short to
// long.
func eachBeginning(tokens []int32, visit func(n int, hash uint64)) {
	hash := uint64(14695981039346656037)
	for i, t := range tokens {
		hash = (hash ^ uint64(uint32(t))) * 1099511628211
		if n := i + 1; n%blockTokens == 0 {
			visit(n, hash)
		}
	}
}
