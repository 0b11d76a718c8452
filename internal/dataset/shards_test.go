package dataset

import "testing"

// Older files of the hub have a hash after the number.
func TestMarkedShards(t *testing.T) {
	const first, second, third = "data/train_sft-00000-of-00003-a3ecf92756993583.parquet",
		"data/train_sft-00001-of-00003-0a1804bcb6ae68c6.parquet", "data/train_sft-00002-of-00003-ee46ed25cfae92c6.parquet"
	if missing := missingShards([]string{first, second, third}); len(missing) > 0 {
		t.Errorf("%q are missing of a whole", missing)
	}
	if missing := missingShards([]string{first, third}); len(missing) != 1 || missing[0] != "data/train_sft-00001-of-00003.parquet" {
		t.Errorf("%q are missing, want the second", missing)
	}
}
