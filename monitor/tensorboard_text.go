package monitor

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity"
)

// Field numbers of Summary.Value, SummaryMetadata (summary.proto), TensorProto (tensor.proto) and
// its shape.
const (
	valueTensor    protowire.Number = 8
	valueMetadata  protowire.Number = 9
	metadataPlugin protowire.Number = 1
	metadataClass  protowire.Number = 4
	pluginName     protowire.Number = 1
	pluginContent  protowire.Number = 2
	tensorType     protowire.Number = 1
	tensorShape    protowire.Number = 2
	tensorFloats   protowire.Number = 5
	tensorStrings  protowire.Number = 8
	shapeDim       protowire.Number = 2
	dimSize        protowire.Number = 1

	floatTensor, stringTensor = 1, 7 // DataType
	tensorClass               = 2    // DataClass
)

// Field numbers of HParamsPluginData, SessionStartInfo (plugin_data.proto of TensorBoard's hparams)
// and google.protobuf.Value.
const (
	hparamsStart   protowire.Number = 3
	startHparams   protowire.Number = 1
	startGroup     protowire.Number = 4
	startTime      protowire.Number = 5
	entryKey       protowire.Number = 1
	entryValue     protowire.Number = 2
	valueNumber    protowire.Number = 2
	valueString    protowire.Number = 3
	valueBool      protowire.Number = 4
	hparamsStarted                  = "_hparams_/session_start_info"
)

// samples returns the values of sample answers: texts in Markdown.
func samples(all []trinity.Sample) (values [][]byte) {
	for i, name := range []string{"samples/lowest_reward", "samples/highest_reward"}[:min(2, len(all))] {
		s := all[i]
		values = append(values, markdown(name, fmt.Sprintf("reward %.4g\n%s\nanswer\n%s", s.Reward, quoted(s.Prompt), quoted(s.Response))))
	}
	return values
}

// quoted returns text as a block of Markdown in which nothing is markup.
func quoted(text string) string {
	return "\n    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}

// markdown returns the value of a text.
func markdown(name, text string) []byte {
	return tensor(name, "text", nil, stringTensor, message(nil, tensorStrings, []byte(text)))
}

// settings returns the values that describe the run: the configuration as text, and what differs
// from the defaults as hyperparameters.
func (t *tensorBoard) settings(at time.Time) (values [][]byte) {
	if t.run.Config != "" {
		values = append(values, markdown("config", quoted(t.run.Config)))
	}
	if len(t.run.Settings) == 0 {
		return values
	}
	var start []byte
	for _, name := range slices.Sorted(maps.Keys(t.run.Settings)) {
		entry := message(nil, entryKey, []byte(name))
		start = message(start, startHparams, message(entry, entryValue, hparam(t.run.Settings[name])))
	}
	start = message(start, startGroup, []byte(t.run.Name))
	start = protowire.AppendTag(start, startTime, protowire.Fixed64Type)
	start = protowire.AppendFixed64(start, math.Float64bits(float64(at.UnixNano())/1e9))
	zero := protowire.AppendFixed32(protowire.AppendTag(nil, tensorFloats, protowire.Fixed32Type), 0)
	return append(values, tensor(hparamsStarted, "hparams", message(nil, hparamsStart, start), floatTensor, zero))
}

// hparam encodes a value of YAML: a number, a truth value, or text.
func hparam(v any) []byte {
	switch v := v.(type) {
	case bool:
		return protowire.AppendVarint(protowire.AppendTag(nil, valueBool, protowire.VarintType), protowire.EncodeBool(v))
	case int:
		return number64(float64(v))
	case int64:
		return number64(float64(v))
	case float64:
		return number64(v)
	}
	return message(nil, valueString, fmt.Append(nil, v))
}

func number64(v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, valueNumber, protowire.Fixed64Type), math.Float64bits(v))
}

// tensor encodes a value for one of TensorBoard's plug-ins: a tensor of one element.
func tensor(name, plugin string, content []byte, kind uint64, element []byte) []byte {
	of := message(message(nil, pluginName, []byte(plugin)), pluginContent, content)
	metadata := protowire.AppendVarint(protowire.AppendTag(message(nil, metadataPlugin, of), metadataClass, protowire.VarintType), tensorClass)
	shape := message(nil, shapeDim, protowire.AppendVarint(protowire.AppendTag(nil, dimSize, protowire.VarintType), 1))
	t := protowire.AppendVarint(protowire.AppendTag(nil, tensorType, protowire.VarintType), kind)
	t = append(message(t, tensorShape, shape), element...)
	v := message(nil, valueTag, []byte(name))
	return message(message(v, valueTensor, t), valueMetadata, metadata)
}
