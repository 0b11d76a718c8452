package annotate

// Agreement says how far annotators agree on pairs that two or more of them judged: which answer is better, or that neither is. Skips are no judgements.
type Agreement struct {
	Pairs int `json:"pairs"` // that two or more judged
	// Share is the mean over these pairs of the share of couples of annotators who say the same.
	Share float64 `json:"share"`
	// Kappa is what Share exceeds chance by, of what it could: 1 is perfect, 0 chance. Of two annotators it is Cohen's (1960), whose chance is that of
	// each one's own shares; of more it is Fleiss' (1971) with as many judgements of a pair as there are, whose chance is that of the shares over all. It is
	// nil where there is no such pair, or chance alone would have them agree always.
	Kappa *float64 `json:"kappa"`
	Name  string   `json:"name"` // Cohen or Fleiss
}

// counts of judgements by verdict: first, second, tie.
type counts [3]float64

var verdicts = map[Verdict]int{First: 0, Second: 1, Tie: 2}

func (c counts) sum() float64 { return c[0] + c[1] + c[2] }

// agreement measures over the pairs with two judgements or more.
func agreement(decided [][]Decision) Agreement {
	var a Agreement
	var all counts
	byAnnotator := map[string]counts{}
	for _, decisions := range decided {
		var of counts
		for _, d := range decisions {
			if v, ok := verdicts[d.Verdict]; ok {
				of[v]++
			}
		}
		n := of.sum()
		if n < 2 {
			continue
		}
		a.Pairs++
		same := 0.0
		for v, k := range of {
			same += k * (k - 1)
			all[v] += k
		}
		a.Share += same / (n * (n - 1))
		for _, d := range decisions {
			if v, ok := verdicts[d.Verdict]; ok {
				c := byAnnotator[d.Annotator]
				c[v]++
				byAnnotator[d.Annotator] = c
			}
		}
	}
	if a.Pairs == 0 {
		return a
	}
	a.Share /= float64(a.Pairs)
	chance := fleiss(all)
	a.Name = "Fleiss"
	if len(byAnnotator) == 2 {
		chance, a.Name = cohen(byAnnotator), "Cohen"
	}
	if chance < 1 {
		kappa := (a.Share - chance) / (1 - chance)
		a.Kappa = &kappa
	}
	return a
}

// fleiss is the chance that two judgements drawn from all are the same.
func fleiss(all counts) float64 {
	chance := 0.0
	for _, k := range all {
		chance += k / all.sum() * k / all.sum()
	}
	return chance
}

// cohen is the chance that two annotators, each with their own shares, say the same.
func cohen(by map[string]counts) float64 {
	product := counts{1, 1, 1}
	for _, c := range by {
		for v := range product {
			product[v] *= c[v] / c.sum()
		}
	}
	return product.sum()
}
