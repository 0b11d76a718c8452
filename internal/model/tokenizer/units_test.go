package tokenizer

import (
	"encoding/json"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// units is testdata/units.json, which record_units.py writes.
type units struct {
	Splits []struct {
		Text     string   `json:"text"`
		String   *string  `json:"String"`
		Regex    *string  `json:"Regex"`
		Behavior string   `json:"behavior"`
		Invert   bool     `json:"invert"`
		Pieces   []string `json:"pieces"`
	} `json:"splits"`
	Classes     map[string]uint32 `json:"classes"`
	Normalizers map[string]uint32 `json:"normalizers"`
}

func readUnits(t *testing.T) (u units) {
	t.Helper()
	data, err := os.ReadFile("testdata/units.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &u); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestSplitBehaviorsPlaceMatches(t *testing.T) {
	for _, c := range readUnits(t).Splits {
		data, err := json.Marshal(map[string]any{
			"type": "Split", "behavior": c.Behavior, "invert": c.Invert, "pattern": map[string]*string{"String": c.String, "Regex": c.Regex},
		})
		if err != nil {
			t.Fatal(err)
		}
		split, err := newPatternSplit(data, "split")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range split.split(nil, piece{c.Text, true}) {
			got = append(got, p.text)
		}
		if !slices.Equal(got, c.Pieces) {
			t.Errorf("%s gives %q on %q, the reference %q", data, got, c.Text, c.Pieces)
		}
	}
}

// codePoints calls f for every code point but U+0000 and the surrogates.
func codePoints(f func(r rune)) {
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if r < 0xd800 || r > 0xdfff {
			f(r)
		}
	}
}

func TestUnicodeClassesFollowUnicode16(t *testing.T) {
	with := func(table *unicode.RangeTable, newer ...*unicode.RangeTable) func(rune) bool {
		return func(r rune) bool { return unicode.Is(table, r) || unicode.IsOneOf(newer, r) }
	}
	of := map[string]func(rune) bool{
		"L": isLetter, "N": isNumber, "space": unicode.IsSpace, "numeric": isNumeric, "word": isWord, "M": with(unicode.M, newMark),
		"P": with(unicode.P, newPunctuation), "Lu": with(unicode.Lu, newUpper), "Ll": with(unicode.Ll, newLower), "Lt": with(unicode.Lt),
		"Lm": with(unicode.Lm, newModifierLetter), "Lo": with(unicode.Lo, newOtherLetter),
	}
	for name, want := range readUnits(t).Classes {
		var in []byte
		codePoints(func(r rune) {
			member := byte(0)
			if of[name](r) {
				member = 1
			}
			in = append(in, member)
		})
		if crc32.ChecksumIEEE(in) != want {
			t.Errorf("class %s differs from the reference", name)
		}
	}
}

func TestNormalizersHandleCodePoints(t *testing.T) {
	for name, want := range readUnits(t).Normalizers {
		normalize, err := newNormalizer(json.RawMessage(`{"type":"`+name+`"}`), "normalizer")
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		codePoints(func(r rune) {
			all.WriteString(normalize(string(r)))
			all.WriteByte(0)
		})
		if crc32.ChecksumIEEE([]byte(all.String())) != want {
			t.Errorf("%s differs from the reference", name)
		}
	}
}

// Python's unicodedata.normalize gave these runs, which are too long for the stream-safe format.
func TestLongRunsOfMarksAreNormalised(t *testing.T) {
	marks := strings.Repeat("\u0313", 35)
	for in, want := range map[string]string{
		"a" + marks + "\u0301":               "a" + marks + "\u0301", // a mark of the same class stands between
		"a" + marks + "\u0323":               "\u1ea1" + marks,       // one of a lower class moves to the front
		"a\u0301" + marks + "\u0301":         "\u00e1" + marks + "\u0301",
		"\u1112\u1161\u11ab" + marks:         "\ud55c" + marks,
		"e" + marks + "\u034fa\u0323 \u0323": "e" + marks + "\u034f\u1ea1 \u0323",
	} {
		if got := unicodeForms["NFC"](in); got != want {
			t.Errorf("NFC of %+q is %+q, expected %+q", in, got, want)
		}
	}
}

// regexp2 must find the same matches of the patterns as the hand-written scanners.
func TestScannersEqualRegexp(t *testing.T) {
	texts := referenceTexts(t)
	for text, scan := range scanners {
		p, err := compile(text, "pattern")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range texts {
			s = validUTF8(s)
			if got, want := (pattern{scan: scan}).find(nil, s), p.find(nil, s); !slices.Equal(got, want) {
				t.Fatalf("%q splits %q at %v, the expression at %v", text, s, got, want)
			}
		}
	}
}

func TestValidUTF8ReplacesIllFormedParts(t *testing.T) {
	for in, want := range map[string]string{ // as Python's bytes.decode(errors="replace")
		"plain é 世 👍":              "plain é 世 👍",
		"a\xffb":                   "a\ufffdb",
		"\xe4\xbd":                 "\ufffd",
		"\xe4\xbd\xe4\xbd\xa0":     "\ufffd你",
		"\xf0\x9f\x91a":            "\ufffda",
		"\xc0\x80":                 "\ufffd\ufffd",
		"\xed\xa0\x80":             "\ufffd\ufffd\ufffd",
		"\xf4\x90\x80\x80":         "\ufffd\ufffd\ufffd\ufffd",
		"\xf0\x80":                 "\ufffd\ufffd",
		"\xef\xbf\xbd\xef\xbf":     "\ufffd\ufffd",
		"\xe1\x80\xe1\x80\x80\xc2": "\ufffd\u1000\ufffd",
	} {
		if got := validUTF8(in); got != want {
			t.Errorf("%q gives %q, expected %q", in, got, want)
		}
	}
	for in, want := range map[string]int{"": 0, "a": 0, "é": 0, "\xc3": 1, "世\xe4\xbd": 2, "\xf0\x9f\x91": 3, "\xf0\x80": 0,
		"\xed\xa0": 0, "\x80\x80\x80": 0, "\xff": 0} {
		if got := incomplete(in); got != want {
			t.Errorf("%q: %d bytes incomplete, expected %d", in, got, want)
		}
	}
}
