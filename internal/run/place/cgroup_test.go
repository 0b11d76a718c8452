package place

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestCgroups(t *testing.T) {
	const none = math.MaxUint64
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	for name, c := range map[string]struct {
		root        fstest.MapFS
		self        string
		limit, free uint64
	}{
		"none":       {fstest.MapFS{}, "", none, none},
		"v2 unbound": {fstest.MapFS{"memory.max": file("max"), "memory.current": file("5")}, "0::/\n", none, none},
		"v2 at root": {fstest.MapFS{"memory.max": file("100"), "memory.current": file("60"),
			"memory.stat": file("anon 20\ninactive_file 30")}, "0::/\n", 100, 70},
		"v2 parent": {fstest.MapFS{"a/memory.max": file("100"), "a/memory.current": file("90"), "a/b/memory.max": file("80"),
			"a/b/memory.current": file("10")}, "0::/a/b\n", 80, 10},
		"v2 of host": {fstest.MapFS{"memory.max": file("100")}, "0::/docker/x\n", 100, 100},
		"v1": {fstest.MapFS{"memory/j/memory.limit_in_bytes": file("50"), "memory/j/memory.usage_in_bytes": file("20"),
			"memory/j/memory.stat": file("total_inactive_file 5")}, "4:cpu:/j\n3:memory:/j\n", 50, 35},
		"v1 together": {fstest.MapFS{"memory/memory.limit_in_bytes": file("50")}, "3:hugetlb,memory:/\n", 50, 50},
		"full":        {fstest.MapFS{"memory.max": file("10"), "memory.current": file("12")}, "0::/\n", 10, 0},
		"nonsense":    {fstest.MapFS{"memory.max": file("ten")}, "x\n0::/../..\n", none, none},
	} {
		if limit, free := cgroups(c.root, c.self); limit != c.limit || free != c.free {
			t.Errorf("%s: limit %d, %d free; want %d, %d", name, limit, free, c.limit, c.free)
		}
	}
}
