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
	// fewTasks is the number of tasks for each core with which cores finish about together.
	fewTasks = 4
	// pageCost is the time to read a page's keys and values of a head from memory, and rowCost the time
	// to attend to them with one query's head: 0.6 and 0.1 µs on two cores of 2023.
	pageCost, rowCost = 6, 1
)

// Plan groups the queries with these views. It keeps views.
func (r *Reading) Plan(a Attention, pool *Pool, views []View) {
	a.checkShape("Reading.Plan")
	r.views, r.last = views, -1
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
	}
	most := max(1, groupRows/a.group())
	r.group(most)
	if tasks := len(r.groups) * a.KVHeads; tasks < len(views)*a.KVHeads && tasks < fewTasks*pool.Size() {
		if best := r.cut(a, pool.Size(), most); best < most {
			r.group(best)
		}
	}
}

// group forms groups of at most so many queries.
func (r *Reading) group(most int) {
	r.groups = r.groups[:0]
	for i, v := range r.views {
		if n := len(r.groups) - 1; n >= 0 && i-r.groups[n].from < most && r.groups[n].join(v.pages()) {
			continue
		}
		r.groups = append(r.groups, readers{i, i + 1, v.pages(), false})
	}
}

// cut returns the most queries of a group with which the cores finish earliest, if the groups are too
// few for all cores. A part of a group reads the common pages once more.
func (r *Reading) cut(a Attention, cores, most int) (best int) {
	least := 0
	for size := most; size > 0; size-- {
		tasks, total, longest := 0, 0, 0
		for _, g := range r.groups {
			n, own := g.to-g.from, 0
			for _, v := range r.views[g.from:g.to] {
				own += max(0, len(v.pages())-len(g.pages))
			}
			parts := (n + size - 1) / size
			cost := parts*len(g.pages)*pageCost + (n*len(g.pages)+own)*a.group()*rowCost + own*pageCost
			longest = max(longest, (cost+parts-1)/parts)
			tasks, total = tasks+parts*a.KVHeads, total+cost*a.KVHeads
		}
		rounds := (tasks + cores - 1) / cores
		if cost := max(longest, rounds*total/tasks); best == 0 || cost < least {
			least, best = cost, size
		}
	}
	return best
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
