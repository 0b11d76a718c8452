package annotate

// Agreement measures how far annotators agree on the pairs that two or more of them judged. Skips
// are not judgements.
type Agreement struct {
	Pairs int `json:"pairs"` // that two or more judged
	// Share is the fraction of pairs of annotators with the same verdict, averaged over these
	// answer pairs.
	Share float64 `json:"share"`
	// Kappa is (Share − chance) / (1 − chance): 1 is perfect agreement, 0 is chance. For two
	// annotators it is Cohen's (1960), with chance from each annotator's own verdicts; for more it
	// is Fleiss' (1971), with chance from all verdicts. It is nil if there is no such pair or
	// chance is 1.
	Kappa *float64 `json:"kappa"`
	Name  string   `json:"name"` // Cohen or Fleiss
}

// counts holds the number of judgements by verdict: first, second, tie.
type counts [3]float64

var verdicts = map[Verdict]int{First: 0, Second: 1, Tie: 2}

func (c counts) sum() float64 { return c[0] + c[1] + c[2] }

// agreement computes the measures over the pairs with two judgements or more.
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

// fleiss returns the probability that two judgements drawn from all are equal.
func fleiss(all counts) float64 {
	chance := 0.0
	for _, k := range all {
		chance += k / all.sum() * k / all.sum()
	}
	return chance
}

// cohen returns the probability that two annotators agree if each draws from their own verdicts.
func cohen(by map[string]counts) float64 {
	product := counts{1, 1, 1}
	for _, c := range by {
		for v := range product {
			product[v] *= c[v] / c.sum()
		}
	}
	return product.sum()
}
