package kernel

import "fmt"

// View says what one query sees: the first Tokens tokens of its pages, in order. The last token is
// its own.
type View struct {
	Pages  []int32
	Tokens int
}

// pages returns the pages that hold the tokens.
func (v View) pages() []int32 { return v.Pages[:(v.Tokens+PageTokens-1)/PageTokens] }

// Reading is the plan of one step's [Attention.Paged], for all layers: which neighbouring queries
// read pages together.
type Reading struct {
	views  []View
	groups []readers
	last   int32 // the highest page
}

// readers are queries [from, to) whose views begin with the same pages or end within them.
type readers struct {
	from, to int
	pages    []int32
	beyond   bool // some queries see their own pages behind the common ones
}

const (
	// groupRows bounds the rows of scores, queries times their heads, that one task holds.
	groupRows = 48
	// straggling is the number of common pages that a member may lack; scores are computed for all.
	straggling = 4
)

// Plan groups the queries with these views. It keeps views.
func (r *Reading) Plan(a Attention, pool *Pool, views []View) {
	a.checkShape("Reading.Plan")
	r.views, r.groups, r.last = views, r.groups[:0], -1
	most := max(1, min(len(views)*a.KVHeads/(4*pool.Size()), groupRows/a.group()))
	for i, v := range views {
		if v.Tokens < 1 || v.Tokens > len(v.Pages)*PageTokens {
			panic(fmt.Sprintf("kernel: Reading.Plan: query %d sees %d tokens in %d pages", i, v.Tokens, len(v.Pages)))
		}
		for _, p := range v.pages() {
			r.last = max(r.last, p)
			if p < 0 {
				panic(fmt.Sprintf("kernel: Reading.Plan: query %d sees page %d", i, p))
			}
		}
		if n := len(r.groups) - 1; n >= 0 && i-r.groups[n].from < most && r.groups[n].join(v.pages()) {
			continue
		}
		r.groups = append(r.groups, readers{i, i + 1, v.pages(), false})
	}
}

// join adds the query behind the last one if it has enough pages in common with the group.
func (g *readers) join(pages []int32) bool {
	common := 0
	for common < min(len(pages), len(g.pages)) && pages[common] == g.pages[common] {
		common++
	}
	switch {
	case common == len(pages) && len(g.pages)-common <= straggling: // it ends within the common pages
	case common == len(g.pages) && !g.beyond && len(pages)-common <= straggling: // all others do
		g.pages = pages
	case common == len(g.pages):
		g.beyond = true
	case common > 1 && g.to-g.from == 1, 4*common >= 3*len(g.pages):
		g.pages, g.beyond = g.pages[:common], true
	default:
		return false
	}
	g.to++
	return true
}
