package annotate

import "slices"

// outcome combines the decisions of all annotators on a pair.
type outcome struct {
	Pair
	better  int        // the better answer, 0 or 1; −1 is neither
	edited  [2]*string // each answer as annotators who did not reject it rewrote it; nil if unchanged
	ratings [2][]int   // of each answer
}

func outcomeOf(p Pair, decided []Decision) outcome {
	o := outcome{Pair: p, better: -1}
	var of [3]int // by verdict: first, second, tie
	for _, d := range decided {
		v, ok := verdicts[d.Verdict]
		if !ok {
			continue
		}
		of[v]++
		for i := range o.edited {
			if d.Edits[i] != nil && (v == i || d.Verdict == Tie) {
				o.edited[i] = d.Edits[i]
			}
			if d.Ratings[i] > 0 {
				o.ratings[i] = append(o.ratings[i], d.Ratings[i])
			}
		}
	}
	for i := range o.Answers {
		if of[i] > of[1-i] && of[i] > of[2] {
			o.better = i
		}
	}
	return o
}

// wanted returns the answers that the model should learn to give.
func (o outcome) wanted() []string {
	var out []string
	for i, e := range o.edited {
		switch {
		case o.better == 1-i:
		case e != nil:
			out = append(out, *e)
		case o.better == i:
			out = append(out, o.Answers[i])
		}
	}
	return out
}

func (o outcome) preference() []any {
	if o.better < 0 {
		return nil
	}
	chosen, rejected := o.wanted()[0], o.Answers[1-o.better]
	if chosen == rejected {
		return nil // an edit made both answers equal
	}
	return []any{o.Prompt.row(map[string]any{"chosen": chosen, "rejected": rejected})}
}

func (o outcome) labels() []any {
	var out []any
	for i, answer := range o.Answers {
		if label, ok := o.label(i); ok {
			out = append(out, o.Prompt.row(map[string]any{"response": answer, "label": label}))
		}
	}
	for _, answer := range o.wanted() {
		if !slices.Contains(o.Answers[:], answer) {
			out = append(out, o.Prompt.row(map[string]any{"response": answer, "label": true}))
		}
	}
	return out
}

// label reports whether the unedited answer is desirable, and whether that is known.
func (o outcome) label(i int) (desirable, known bool) {
	sum := 0
	for _, r := range o.ratings[i] {
		sum += r
	}
	if n := len(o.ratings[i]); n > 0 {
		return sum > 3*n, sum != 3*n
	}
	return o.better == i, o.better == 1-i || o.better == i && o.edited[i] == nil
}

func (o outcome) demonstrations() []any {
	var out []any
	for _, answer := range o.wanted() {
		out = append(out, o.Prompt.demonstration(answer))
	}
	return out
}
