package annotate

// Progress counts what is done and left.
type Progress struct {
	Pairs     int       `json:"pairs"`
	Done      int       `json:"done"`      // pairs that as many annotators have judged as are to
	Judged    int       `json:"judged"`    // judgements
	Skipped   int       `json:"skipped"`   // skips
	Mine      int       `json:"mine"`      // judgements and skips of the annotator who asks
	LeftWins  int       `json:"left_wins"` // judgements for the answer that stood left; of many, half would be without a liking for one side
	Wins      int       `json:"wins"`      // judgements for one of the answers
	Agreement Agreement `json:"agreement"`
	Elsewhere int       `json:"elsewhere"` // decisions on pairs that the data do not have
	Torn      int64     `json:"torn"`      // bytes at the end of the decisions that were no whole one when the book was opened
}

// Progress returns the counts, with those of the annotator.
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
