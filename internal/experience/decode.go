package experience

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
)

// Decode returns the experience whose binary form is data. The error names the broken field. Decode
// copies what it needs of data.
func Decode(data []byte) (*trinity.Experience, error) {
	if len(data) < len(Magic) || string(data[:len(Magic)]) != Magic {
		return nil, fmt.Errorf("not an experience: it does not begin with %s", Magic)
	}
	e := new(trinity.Experience)
	var mask []byte
	r := &reader{data: data[len(Magic):]}
	for last := tagEnd; ; {
		tag := int(r.byte())
		if tag == tagEnd && !r.failed {
			break
		}
		field := &reader{data: r.bytes(), length: len(e.Tokens)}
		if r.failed {
			return nil, errShort
		}
		if tag <= last {
			return nil, fmt.Errorf("field %d of an experience comes after field %d", tag, last)
		}
		last = tag
		if tag == tagMask {
			mask = field.data
			continue
		}
		if err := decodeField(e, tag, field); err != nil {
			return nil, fmt.Errorf("field %d of experience %s: %w", tag, e.ID, err)
		}
	}
	if len(r.data) > 0 {
		return nil, fmt.Errorf("%d bytes follow experience %s", len(r.data), e.ID)
	}
	if err := decodeMask(e, mask); err != nil {
		return nil, err
	}
	return e, e.Check()
}

var errShort = errors.New("it ends before its length says")

func decodeField(e *trinity.Experience, tag int, r *reader) (err error) {
	switch tag {
	case tagID:
		e.ID = trinity.ExperienceID{Step: r.varint(), Run: r.int(), Turn: r.int(), Task: string(r.rest())}
	case tagTokens:
		e.Tokens = r.tokens()
	case tagLogprobs:
		e.Logprobs = r.floats()
	case tagAdvantages:
		e.Advantages = r.floats()
	case tagReturns:
		e.Returns = r.floats()
	case tagRefLogprobs:
		e.RefLogprobs = r.floats()
	case tagTeacherLogprobs:
		e.TeacherLogprobs = r.floats()
	case tagTeacher:
		e.Teacher = string(r.rest())
	case tagTruncated:
		e.Truncated = trinity.Truncation(r.rest())
	case tagPrompt:
		e.Prompt = string(r.rest())
	case tagResponse:
		e.Response = string(r.rest())
	case tagPromptLen:
		e.PromptLen = r.int()
	case tagTemperature:
		e.Temperature = math.Float32frombits(r.word())
	case tagVersions:
		e.Versions = [2]int64{r.varint(), r.varint()}
	case tagReward:
		e.Reward = r.reward()
	case tagMetrics:
		e.Metrics = r.numbers()
	case tagInfo:
		err = json.Unmarshal(r.rest(), &e.Info)
	case tagFlags:
		flags := r.byte()
		e.Chosen, e.IsExpert = flags&flagChosen != 0, flags&flagExpert != 0
	case tagEnvironmentLen:
		e.EnvironmentLen = r.int()
	case tagTruth:
		e.Truth = string(r.rest())
	case tagImages:
		e.Images = r.images()
	case tagSource:
		e.Source = string(r.rest())
	case tagPart:
		e.Part = string(r.rest())
	case tagExperts:
		e.Experts, err = unpackExperts(r.rest(), len(e.Tokens))
	default:
		return errors.New("unknown: a newer version of Trinity-Go wrote it")
	}
	switch {
	case err != nil:
		return err
	case r.failed:
		return errShort
	case len(r.data) > 0:
		return fmt.Errorf("%d bytes too many", len(r.data))
	}
	return nil
}

func decodeMask(e *trinity.Experience, bits []byte) error {
	if len(bits) != maskBytes(len(e.Tokens)) {
		return fmt.Errorf("experience %s: its mask has %d bytes for %d tokens, want %d", e.ID, len(bits), len(e.Tokens), maskBytes(len(e.Tokens)))
	}
	e.Mask = make([]bool, len(e.Tokens))
	for i, b := range bits {
		for j := 8 * i; b != 0; j, b = j+1, b>>1 {
			if b&1 != 0 && j < len(e.Mask) {
				e.Mask[j] = true
			}
		}
	}
	return nil
}
