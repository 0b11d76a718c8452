package served

import "testing"

// Weights travel over NCCL between GPUs, and through their memory if both sides are on the same ones.
func TestTransports(t *testing.T) {
	for _, c := range []struct {
		from, to      string
		shares, opens bool
		want          string // "" is an error
	}{
		{"cuda", "cuda", false, true, nccl},
		{"cuda", "cuda", false, false, nccl},
		{"cuda", "cuda", true, true, ipc},
		{"cuda", "cuda", true, false, ""},
		{"cpu", "cuda", false, true, ""},
		{"cuda", "cpu", false, true, gloo},
		{"cpu", "cpu", true, true, gloo},
	} {
		s := &servers{shares: c.shares}
		if got, err := s.transport(c.from, inlet{device: c.to, opens: c.opens}); got != c.want || (err == nil) == (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
