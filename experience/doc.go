// Package experience is the binary form in which stores and checkpoints keep experiences. It holds numbers and text only: nothing in it can be
// executed, and a reader checks every length before it believes it.
//
// An experience is the four bytes "TGX1" and fields, in increasing order of their tag. A field is its tag (one byte), the length of its payload
// (unsigned LEB128 varint, bytes) and the payload; a byte 0 ends them. A field that is left out is nil, zero or empty. All numbers are little-endian.
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
//	18   info              JSON object; what JSON has no form for is left out
//	19   flags             byte: 1 chosen, 2 is_expert
//
// Numbers are the byte 0 and float32 × T; or, where that takes half as much or less, the byte 1 and runs of equal bits: how long each is (varint), and its float32. An
// advantage that all tokens of a response share is two runs, of the prompt's zeros and its own.
//
// A reader refuses tags that it does not know: a newer program wrote them, and leaving them out could change what is learnt.
package experience

// Magic is what the form begins with.
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
)

// forms of numbers
const (
	formWords = iota
	formRuns
)

const (
	flagChosen = 1 << iota
	flagExpert
)
