package model

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// A model with a merged adapter has the tensors of PEFT's merge_and_unload, also rounded to bf16.
func TestMergedModelEqualsPEFTs(t *testing.T) {
	base := open(t, "testdata/tiny/llama")
	adapter := openAdapter(t, "testdata/adapter", base.Config)
	for dtype, c := range map[string]struct {
		file string
		ulp  float64 // relative
	}{"f32": {"merged.safetensors", 0x1p-22}, "bf16": {"merged_bf16.safetensors", 0x1p-7}} {
		dir := t.TempDir()
		merged := writeMerged(t, dir, base, adapter, dtype)
		f, err := safetensors.Open("testdata/adapter/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if len(f.Names()) != len(merged.Names()) {
			t.Errorf("%s: %d tensors, PEFT's has %d", dtype, len(merged.Names()), len(f.Names()))
		}
		different, total := 0, 0
		for _, name := range f.Names() {
			recorded, _ := f.Tensor(name)
			want := make([]float32, recorded.Len())
			if err := recorded.Range(want, 0); err != nil {
				t.Fatal(err)
			}
			for i, v := range values(t, merged, name) {
				total++
				if v != want[i] {
					different++
				}
				if d := math.Abs(float64(v - want[i])); d > c.ulp*max(1, math.Abs(float64(want[i]))) {
					t.Fatalf("%s: %s element %d is %v, want %v", dtype, name, i, v, want[i])
				}
			}
		}
		if dtype == "bf16" && different > total/100 { // the order of a sum may decide a tie
			t.Errorf("bf16: %d of %d weights are rounded otherwise", different, total)
		}
	}
}

// writeMerged merges an adapter, and opens the model that was written.
func writeMerged(t *testing.T, dir string, base *Model, adapter *Adapter, dtype string) *Model {
	t.Helper()
	merged, err := Merge(base, adapter)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteDir(dir, merged.Config, merged, dtype); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

// An adapted head that was tied gets weights of its own, and the embedding stays.
func TestMergedHeadIsUntied(t *testing.T) {
	base := open(t, "testdata/tiny/llama")
	adapter := openAdapter(t, "testdata/adapter_head", base.Config)
	dir := t.TempDir()
	merged := writeMerged(t, dir, base, adapter, "f32")
	written := readJSON(t, filepath.Join(dir, configName))["tie_word_embeddings"]
	if !base.Config.TieEmbeddings || merged.Config.TieEmbeddings || written != false {
		t.Errorf("the head is tied: base %v, merged %v", base.Config.TieEmbeddings, merged.Config.TieEmbeddings)
	}
	f, err := safetensors.Open("testdata/adapter_head/merged.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Names()) != len(merged.Names()) {
		t.Errorf("%d tensors, PEFT's has %d", len(merged.Names()), len(f.Names()))
	}
	for _, name := range f.Names() {
		recorded, _ := f.Tensor(name)
		want := make([]float32, recorded.Len())
		if err := recorded.Range(want, 0); err != nil {
			t.Fatal(err)
		}
		for i, v := range values(t, merged, name) {
			if math.Abs(float64(v-want[i])) > 1e-6*max(1, math.Abs(float64(want[i]))) {
				t.Fatalf("%s element %d is %v, want %v", name, i, v, want[i])
			}
		}
	}
}

func TestAddProductAddsTheScaledProduct(t *testing.T) {
	dst := []float32{1, 2, 3, 4, 5, 6}
	addProduct(dst, []float32{1, 2, 3, 4}, []float32{1, 0, 1, 0, 1, 1}, 0.5, 2, 2, 3)
	for i, want := range []float32{1 + 0.5, 2 + 1, 3 + 1.5, 4 + 1.5, 5 + 2, 6 + 3.5} {
		if dst[i] != want {
			t.Errorf("element %d is %v, want %v", i, dst[i], want)
		}
	}
}
