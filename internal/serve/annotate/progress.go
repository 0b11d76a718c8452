package annotate

// Progress counts pairs and decisions.
type Progress struct {
	Pairs     int       `json:"pairs"`
	Done      int       `json:"done"`      // pairs with all wanted judgements
	Judged    int       `json:"judged"`    // judgements
	Skipped   int       `json:"skipped"`   // skips
	Mine      int       `json:"mine"`      // judgements and skips of the requesting annotator
	LeftWins  int       `json:"left_wins"` // judgements for the left answer; about half of Wins without a bias
	Wins      int       `json:"wins"`      // judgements for one of the answers
	Agreement Agreement `json:"agreement"`
	Elsewhere int       `json:"elsewhere"` // decisions on pairs that the data lack
	Torn      int64     `json:"torn"`      // bytes of an incomplete decision that Open has cut off
}

// Progress returns the counts, including those for the annotator.
func (b *Book) Progress(annotator string) Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := Progress{Pairs: len(b.pairs), Mine: len(b.history[annotator]), Elsewhere: len(b.elsewhere), Torn: b.log.Torn()}
	for at, decided := range b.decided {
		if b.votes(at) >= b.terms.Overlap {
			p.Done++
		}
		for _, d := range decided {
			p.count(d)
		}
	}
	p.Agreement = agreement(b.decided)
	return p
}

func (p *Progress) count(d Decision) {
	if d.Verdict == Skip {
		p.Skipped++
		return
	}
	p.Judged++
	if d.Verdict == Tie {
		return
	}
	p.Wins++
	if (d.Verdict == First) == (d.Left == 0) {
		p.LeftWins++
	}
}
