package served

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/experience"
)

// experts of a model with layers of both kinds
var small = router{experience.Routes{Layers: 2, PerToken: 2, Experts: 8}, []bool{false, true, true}}

func npy(descr, shape, data string) []byte {
	header := "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }"
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	return []byte("\x93NUMPY\x01\x00\x76\x00" + header + data)
}

func TestExpertsOfServers(t *testing.T) {
	q, a := &query{prompt: []int32{1, 2}}, &answer{tokens: []int32{3}}
	for _, c := range []struct {
		data []byte
		bare bool
		want []byte
		err  string
	}{
		{data: npy("|u1", "(2, 2, 2)", "\x01\x02\x03\x04\x05\x06\x07\x00"),
			want: []byte{1, 2, 3, 4, 5, 6, 7, 0}},
		{data: npy("<u2", "(2, 2, 2)", "\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\x06\x00\x07\x00\x00\x00"),
			want: []byte{1, 2, 3, 4, 5, 6, 7, 0}},
		{data: npy("|u1", "(2, 3, 2)", "\xff\xff\x01\x02\x03\x04\xff\xff\x05\x06\x07\x00"),
			want: []byte{1, 2, 3, 4, 5, 6, 7, 0}},
		{data: npy("<u2", "(2, 2, 2)", "\x01\x02"), err: "2 bytes follow their .npy header; its shape [2 2 2] needs 16"},
		{data: npy("|u1", "(1, 2, 2)", "\x01\x02\x03\x04"), err: "the shape [1 2 2]; want [2, 2, 2]"},
		{data: npy("<f4", "(2, 2, 2)", ""), err: "header is"},
		{data: npy("|u1", "(2, 2, 2)", "\x01\x08\x03\x04\x05\x06\x07\x00"),
			err: "expert 8, and the model has experts 0 to 7: the server has another model"},
		{data: npy("|u1", "(2, 2, 2)", "\x01\x01\x03\x04\x05\x06\x07\x00"), err: "expert 1 twice"},
		{data: []byte("no array"), err: "no .npy file"},
		{data: nil, err: "start it with --enable-return-routed-experts"},
		{data: []byte{1, 0, 0, 0, 2, 0, 0, 0}, bare: true, err: "8 bytes for 2 places"},
		{data: []byte{0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}, bare: true, err: "the shape [2 1 2]"},
	} {
		a.routed, a.bare = base64.StdEncoding.EncodeToString(c.data), c.bare
		got, err := small.of(q, a)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: %v, %v; want the error %q", c.data, got, err, c.err)
		case c.err == "" && (err != nil || !bytes.Equal(got, c.want)):
			t.Errorf("%q: %v, %v; want %v", c.data, got, err, c.want)
		}
	}
	q.experts = []byte{7, 6, 5, 4} // of the first token
	a.routed, a.bare = base64.StdEncoding.EncodeToString(npy("|u1", "(1, 2, 2)", "\x01\x02\x03\x04")), false
	if got, err := small.of(q, a); err != nil || !slices.Equal(got, []byte{7, 6, 5, 4, 1, 2, 3, 4}) {
		t.Errorf("joined: %v, %v", got, err)
	}
}

func FuzzExpertsOfServers(f *testing.F) {
	f.Add(npy("|u1", "(2, 2, 2)", "\x01\x02\x03\x04\x05\x06\x07\x00"), false)
	f.Add(npy("<u2", "(2, 3, 2)", "\x01\x00"), false)
	f.Add(npy("<i4", "(999999999, 999999999, 999999999)", ""), false)
	f.Add(bytes.Repeat([]byte{3, 0, 0, 0, 1, 0, 0, 0}, 4), true)
	f.Fuzz(func(t *testing.T, data []byte, bare bool) {
		q, a := &query{prompt: []int32{1, 2}}, &answer{tokens: []int32{3}, routed: base64.StdEncoding.EncodeToString(data), bare: bare}
		if got, err := small.of(q, a); err == nil {
			if err := small.Check(got, 3); err != nil {
				t.Errorf("%v: %v", got, err)
			}
		}
	})
}
