package experience

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

// Append appends the binary form of an experience to dst. It leaves out what lives for one train
// step only (OldLogprobs, PolicyWeights, Values, Entropies, Discriminators) and what JSON cannot
// express of Info (see [JSONSafe]). It fails, and returns dst unchanged, if a json.Marshaler in
// Info fails only some of the time.
func Append(dst []byte, e *trinity.Experience) ([]byte, error) {
	before := len(dst)
	dst = slices.Grow(dst, sizeHint(e))
	dst = append(dst, Magic...)
	dst = appendID(dst, e.ID)
	dst = appendTokens(dst, e.Tokens)
	dst = appendMask(dst, e.Mask)
	dst = appendFloats(dst, tagLogprobs, e.Logprobs)
	dst = appendFloats(dst, tagAdvantages, e.Advantages)
	dst = appendFloats(dst, tagReturns, e.Returns)
	dst = appendFloats(dst, tagRefLogprobs, e.RefLogprobs)
	dst = appendFloats(dst, tagTeacherLogprobs, e.TeacherLogprobs)
	dst = appendText(dst, tagTeacher, e.Teacher)
	dst = appendText(dst, tagTruncated, string(e.Truncated))
	dst = appendText(dst, tagPrompt, e.Prompt)
	dst = appendText(dst, tagResponse, e.Response)
	if e.PromptLen != 0 {
		dst = appendCount(dst, tagPromptLen, e.PromptLen)
	}
	if e.Temperature != 0 {
		dst = append(dst, tagTemperature, 4)
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(e.Temperature))
	}
	if e.Versions != [2]int64{} {
		var b [2 * binary.MaxVarintLen64]byte
		dst = appendField(dst, tagVersions, binary.AppendVarint(binary.AppendVarint(b[:0], e.Versions[0]), e.Versions[1]))
	}
	dst = appendReward(dst, e.Reward)
	if e.Metrics != nil {
		dst = appendField(dst, tagMetrics, appendNumbers(nil, e.Metrics))
	}
	if e.Info != nil {
		info, err := json.Marshal(e.Info)
		if err != nil {
			safe, _ := JSONSafe(e.Info)
			info, err = json.Marshal(safe)
		}
		if err != nil {
			return dst[:before], fmt.Errorf("experience %s: info: %w", e.ID, err)
		}
		dst = appendField(dst, tagInfo, info)
	}
	dst = appendFlags(dst, e)
	if e.EnvironmentLen != 0 {
		dst = appendCount(dst, tagEnvironmentLen, e.EnvironmentLen)
	}
	dst = appendText(dst, tagTruth, e.Truth)
	dst = appendImages(dst, e.Images)
	dst = appendText(dst, tagSource, e.Source)
	dst = appendText(dst, tagPart, e.Part)
	if len(e.Experts) > 0 {
		dst = appendField(dst, tagExperts, packExperts(e.Experts))
	}
	return append(dst, tagEnd), nil
}

// sizeHint estimates the size of the binary form, bytes.
func sizeHint(e *trinity.Experience) int {
	floats := len(e.Logprobs) + len(e.Advantages) + len(e.Returns) + len(e.RefLogprobs) + len(e.TeacherLogprobs)
	return 256 + 4*len(e.Tokens) + len(e.Mask)/8 + 4*floats + len(e.Prompt) + len(e.Response) + len(e.Truth) + len(e.ID.Task)
}

func appendField(dst []byte, tag byte, payload []byte) []byte {
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(payload)))
	return append(dst, payload...)
}

func appendCount(dst []byte, tag byte, n int) []byte {
	var b [binary.MaxVarintLen64]byte
	return appendField(dst, tag, binary.AppendUvarint(b[:0], uint64(n)))
}

func appendID(dst []byte, id trinity.ExperienceID) []byte {
	var b [3*binary.MaxVarintLen64 + 64]byte
	p := binary.AppendVarint(b[:0], id.Step)
	p = binary.AppendUvarint(p, uint64(id.Run))
	p = binary.AppendUvarint(p, uint64(id.Turn))
	return appendField(dst, tagID, append(p, id.Task...))
}

func appendImages(dst []byte, images []trinity.Image) []byte {
	if len(images) == 0 {
		return dst
	}
	var p []byte
	for _, image := range images {
		p = binary.AppendUvarint(p, uint64(len(image.Digest)))
		p = append(p, image.Digest...)
		for _, n := range []int{image.At, image.Len, image.Grid[0], image.Grid[1], image.Grid[2]} {
			p = binary.AppendUvarint(p, uint64(n))
		}
	}
	return appendField(dst, tagImages, p)
}

func appendTokens(dst []byte, tokens []int32) []byte {
	if tokens == nil {
		return dst
	}
	dst = binary.AppendUvarint(append(dst, tagTokens), uint64(4*len(tokens)))
	dst, room := extend(dst, 4*len(tokens))
	for i, v := range tokens {
		binary.LittleEndian.PutUint32(room[4*i:], uint32(v))
	}
	return dst
}

func appendFloats(dst []byte, tag byte, values []float32) []byte {
	if values == nil {
		return dst
	}
	dst = append(dst, tag)
	if size, much := sizeInRuns(values); much {
		return appendRuns(binary.AppendUvarint(dst, uint64(size)), values)
	}
	dst = append(binary.AppendUvarint(dst, uint64(1+4*len(values))), formWords)
	dst, room := extend(dst, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(room[4*i:], math.Float32bits(v))
	}
	return dst
}

// extend appends n bytes of any value to dst, and returns these bytes as room.
func extend(dst []byte, n int) (all, room []byte) {
	dst = slices.Grow(dst, n)
	all = dst[:len(dst)+n]
	return all, all[len(dst):]
}

// sizeInRuns returns the size of the values in runs, bytes, and reports whether it is at most half
// the size in words, which are faster to read.
func sizeInRuns(values []float32) (size int, much bool) {
	size = 1
	for i := 0; i < len(values) && size <= 2*len(values); {
		n := run(values[i:])
		size += uvarintBytes(n) + 4
		i += n
	}
	return size, size <= 2*len(values)
}

func appendRuns(dst []byte, values []float32) []byte {
	dst = append(dst, formRuns)
	for len(values) > 0 {
		n := run(values)
		dst = binary.AppendUvarint(dst, uint64(n))
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(values[0]))
		values = values[n:]
	}
	return dst
}

// run returns how many of the first values have equal bits.
func run(values []float32) int {
	first := math.Float32bits(values[0])
	for i, v := range values {
		if math.Float32bits(v) != first {
			return i
		}
	}
	return len(values)
}

func uvarintBytes(v int) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func appendMask(dst []byte, mask []bool) []byte {
	if mask == nil {
		return dst
	}
	dst = binary.AppendUvarint(append(dst, tagMask), uint64(maskBytes(len(mask))))
	dst, room := extend(dst, maskBytes(len(mask)))
	clear(room)
	for i, m := range mask {
		if m {
			room[i/8] |= 1 << (i % 8)
		}
	}
	return dst
}

func maskBytes(tokens int) int { return (tokens + 7) / 8 }

func appendText(dst []byte, tag byte, text string) []byte {
	if text == "" {
		return dst
	}
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(text)))
	return append(dst, text...)
}

func appendReward(dst []byte, r trinity.Reward) []byte {
	var b [64]byte
	p := append(b[:0], 0)
	if r.Valid {
		p[0] = 1
	}
	p = binary.LittleEndian.AppendUint64(p, math.Float64bits(r.Value))
	p = binary.AppendUvarint(p, uint64(len(r.Reason)))
	p = append(p, r.Reason...)
	if r.Parts != nil {
		p = appendNumbers(p, r.Parts)
	}
	return appendField(dst, tagReward, p)
}

// appendNumbers appends numbers by name, sorted, so that equal experiences have equal bytes.
func appendNumbers(dst []byte, numbers map[string]float64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(numbers)))
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		dst = binary.AppendUvarint(dst, uint64(len(name)))
		dst = append(dst, name...)
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(numbers[name]))
	}
	return dst
}

func appendFlags(dst []byte, e *trinity.Experience) []byte {
	var flags byte
	if e.Chosen {
		flags |= flagChosen
	}
	if e.IsExpert {
		flags |= flagExpert
	}
	if flags == 0 {
		return dst
	}
	return append(dst, tagFlags, 1, flags)
}
