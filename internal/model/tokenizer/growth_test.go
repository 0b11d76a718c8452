package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A tokenizer of a stranger may not make a text so long that it takes the machine's memory. Those of
// real models may make it longer.
func TestNormalizersAreBounded(t *testing.T) {
	replace := func(from, to string) string {
		return fmt.Sprintf(`{"type":"Replace","pattern":{"String":%q},"content":%q}`, from, to)
	}
	regex := func(from, to string) string {
		return fmt.Sprintf(`{"type":"Replace","pattern":{"Regex":%q},"content":%q}`, from, to)
	}
	sequence := func(of string, parts ...string) string {
		return `{"type":"Sequence","` + of + `":[` + strings.Join(parts, ",") + `]}`
	}
	bomb := strings.Repeat(","+replace("a", strings.Repeat("a", 1000)), 20)[1:]
	twos := strings.Repeat(","+replace("a", "aa"), 40)[1:]
	swaps := strings.Repeat(","+replace("a", "bb")+","+replace("b", "aa"), 20)[1:]
	marks := replace("a", "<"+strings.Repeat("x", 60)+">") + "," + replace("><", strings.Repeat("y", 500))
	for _, c := range []struct{ normalizer, want string }{
		{sequence("normalizers", bomb), "normalizer.normalizers[0] makes a text up to 1000 times as long; at most 256 times is supported"},
		{sequence("decoders", bomb), "normalizer.decoders[0] makes a text up to 1000 times as long"},
		{sequence("normalizers", twos), "normalizer: its 40 steps together may make a text more than 256 times as long"},
		{sequence("normalizers", sequence("normalizers", twos), twos), "its 80 steps together"},
		{sequence("normalizers", swaps), "its 40 steps together"},
		{sequence("normalizers", marks), "its 2 steps together"},
		{regex("a*", strings.Repeat("b", 300)), "up to 301 times"},
		{sequence("normalizers", regex(".", strings.Repeat(".", 20)), regex(".", strings.Repeat(".", 20))), "its 2 steps together"},
		{fmt.Sprintf(`{"type":"Prepend","prepend":%q}`, strings.Repeat("x", 1000)), "up to 1001 times"},
		{sequence("normalizers", `{"type":"Prepend","prepend":"▁"}`, replace(" ", "▁")), ""},
		{sequence("normalizers", replace("\n", "<|newline|>"), replace("\t", "<|tab|>"), replace("``", "\""), replace("''", "\""),
			replace(" ", "▁"), `{"type":"NFC"}`), ""},
		{sequence("normalizers", `{"type":"NFKC"}`, `{"type":"Lowercase"}`, replace(" ", "▁")), ""},
		{sequence("normalizers", `{"type":"NFC"}`, regex(`\s+`, " "), `{"type":"Lowercase"}`), ""},
		{sequence("decoders", replace("▁", " "), `{"type":"ByteFallback"}`, `{"type":"Fuse"}`), ""},
		{"null", ""}, {"", ""}, {`{"type":"Strip"}`, ""},
	} {
		err := checkGrowth(json.RawMessage(c.normalizer), "normalizer")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100s: %v, want %q", c.normalizer, err, c.want)
		}
	}
}

// Steps, levels, patterns and files of a stranger's tokenizer have bounds, because each step runs over
// every text, each level is parsed again, and a pattern of a million brackets ends the process.
func TestPartsAreBounded(t *testing.T) {
	sequence := func(key string, n int, part string) string {
		return fmt.Sprintf(`{"type":"Sequence",%q:[%s]}`, key, strings.Repeat(","+part, n)[1:])
	}
	nested := func(key string, n int) string {
		return strings.Repeat(fmt.Sprintf(`{"type":"Sequence",%q:[`, key), n) + strings.Repeat("]}", n)
	}
	split := func(pattern string) string {
		return fmt.Sprintf(`{"type":"Split","pattern":{"Regex":%q},"behavior":"Isolated","invert":false}`, pattern)
	}
	const replace = `{"type":"Replace","pattern":{"String":"{\"["},"content":"b"}`
	for _, c := range []struct{ key, value, want string }{
		{"normalizer", sequence("normalizers", 400_000, replace), "normalizer has more than 4096 objects and lists"},
		{"decoder", sequence("decoders", 2500, replace), "decoder has more than 4096 objects and lists"},
		{"post_processor", sequence("processors", 5000, `{"type":"ByteLevel"}`), "post_processor has more than 4096"},
		{"pre_tokenizer", nested("pretokenizers", 4000), "pre_tokenizer nests deeper than 64 levels"},
		{"normalizer", nested("normalizers", 40), "normalizer nests deeper than 64 levels"},
		{"normalizer", nested("normalizers", 20), ""},
		{"normalizer", sequence("normalizers", 400, replace), ""},
		{"pre_tokenizer", sequence("pretokenizers", 65, split("a|.")), "pre_tokenizer has 65 regular expressions; at most 64 are supported"},
		{"pre_tokenizer", split(strings.Repeat("(", 1_000_000) + "a" + strings.Repeat(")", 1_000_000)),
			"pre_tokenizer.pattern.Regex has 2000001 bytes; at most 16384 are supported"},
		{"pre_tokenizer", split("[" + strings.Repeat("一丁", 1_000_000) + "]"), "pre_tokenizer.pattern.Regex has 6000002 bytes"},
		{"pre_tokenizer", split(strings.Repeat("(", 8000) + "a" + strings.Repeat(")", 8000)), ""},
	} {
		file := fmt.Sprintf(`{"version":"1.0",%q:%s,"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}}`, c.key, c.value)
		_, err := parse(map[string][]byte{definitionFile: []byte(file)})
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || len(err.Error()) > 200) {
			t.Errorf("%.80s: %.300v, want %q", c.value, err, c.want)
		}
	}
}
