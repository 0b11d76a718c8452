package cli_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/cli"
	"github.com/trinity-go/trinity/model"
)

// spoilt is a model one of whose tensors is spoilt at its last number.
type spoilt struct {
	model.Source
	name string
	with float32
}

func (s spoilt) Tensor(name string) (model.Tensor, error) {
	t, err := s.Source.Tensor(name)
	if err != nil || name != s.name {
		return t, err
	}
	return model.NewTensor(name, t.Shape, func(dst []float32, from, to int) error {
		err := t.Rows(dst, from, to)
		if to == t.Shape[0] {
			dst[len(dst)-1] = s.with
		}
		return err
	}), nil
}

// The numbers of a model may be none. The error says so, and which tensor it is.
func TestScoreNamesBrokenWeights(t *testing.T) {
	const quickstart = "../../examples/quickstart/model"
	cfg, err := model.ReadConfig(quickstart)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := model.RandomInit(cfg, 1, "hf")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tensor string
		with   float64
		want   string
	}{
		{"model.norm.weight", math.NaN(), "tensor model.norm.weight holds NaN at row "},
		{"model.layers.0.mlp.down_proj.weight", math.Inf(1), "tensor model.layers.0.mlp.down_proj.weight holds +Inf at row "},
	} {
		dir := filepath.Join(t.TempDir(), "model")
		if err := model.WriteDir(dir, cfg, spoilt{whole, c.tensor, float32(c.with)}, "f32"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
			data, err := os.ReadFile(filepath.Join(quickstart, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr strings.Builder
		code := cli.Main([]string{"score", "--model", dir}, strings.NewReader(`{"text":"one two"}`), &stdout, &stderr)
		want := "the model's logits are not numbers: the weights are broken: " + c.want
		if code != 1 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s is %g: code %d, %s; want %q", c.tensor, c.with, code, stderr.String(), want)
		}
	}
}
