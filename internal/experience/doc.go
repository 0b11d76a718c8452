// Package experience encodes experiences, in three forms:
//
//   - a binary form for machines ([Append], [Decode]), which stores, checkpoints and explorers use;
//   - a row for people ([Row]), which Parquet files and databases hold;
//   - JSON for foreign programs: trinity.Experience in files ([AppendJSON]), [Row] in package operator.
//
// The binary form holds numbers and text only: nothing in it can be executed, and the reader checks
// every length before it uses it.
//
// It is the four bytes "TGX1" and fields in increasing order of their tag. A field is its tag (one
// byte), the length of its payload (unsigned LEB128 varint, bytes) and the payload. A byte 0 ends
// the fields. A missing field is nil, zero or empty. All numbers are little-endian.
//
//	tag  field             payload
//	1    id                step (zigzag varint), run, turn (varints), task (the rest, UTF-8)
//	2    tokens            int32 × T
//	3    mask              one bit per token, lowest bit first, ⌈T/8⌉ bytes
//	4    logprobs          numbers; likewise 5 advantages, 6 returns, 7 ref_logprobs, 8 teacher_logprobs
//	9    teacher           UTF-8; likewise 10 truncated, 11 prompt, 12 response
//	13   prompt_len        varint
//	14   temperature       float32
//	15   versions          oldest, newest (zigzag varints)
//	16   reward            valid (byte 0 or 1), value (float64), reason (length as varint, UTF-8), parts (as metrics)
//	17   metrics           count (varint), then of each, by name: length of the name (varint), name, value (float64)
//	18   info              JSON object; without what JSON cannot express
//	19   flags             byte: 1 chosen, 2 is_expert
//	20   environment_len   varint
//	21   truth             UTF-8; likewise 23 source, 24 part
//	22   images            of each: length of the digest (varint), digest (UTF-8), at, len, three of grid (varints)
//	25   experts           those of Experience.Experts, compressed with zstd (RFC 8878)
//
// Numbers are the byte 0 and float32 × T. If it takes at most half the space, they are the byte 1
// and runs of equal numbers, each its length (varint) and its float32. An advantage that all tokens
// of a response share is two runs: the zeros of the prompt, and the advantage.
//
// A reader refuses unknown tags: a newer program wrote them, and skipping them could change what is
// learnt.
//
// The package also has what engines share that train reward models ([Scored]).
package experience

// Magic is the beginning of the binary form.
const Magic = "TGX1"

const (
	tagEnd = iota
	tagID
	tagTokens
	tagMask
	tagLogprobs
	tagAdvantages
	tagReturns
	tagRefLogprobs
	tagTeacherLogprobs
	tagTeacher
	tagTruncated
	tagPrompt
	tagResponse
	tagPromptLen
	tagTemperature
	tagVersions
	tagReward
	tagMetrics
	tagInfo
	tagFlags
	tagEnvironmentLen
	tagTruth
	tagImages
	tagSource
	tagPart
	tagExperts
)

// Forms of numbers.
const (
	formWords = iota
	formRuns
)

const (
	flagChosen = 1 << iota
	flagExpert
)
