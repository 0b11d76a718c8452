package sampler

// queue is requests in order of arrival. Its memory follows the number of those that wait.
type queue struct {
	items []*request
	head  int // items before it are gone
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(r *request) { q.items = append(q.items, r) }

// first is the one that waits longest, nil if none does.
func (q *queue) first() *request {
	if q.len() == 0 {
		return nil
	}
	return q.items[q.head]
}

// pop takes the first one off; once half of the items are gone the others move down.
func (q *queue) pop() {
	q.items[q.head] = nil
	q.head++
	if 2*q.head >= len(q.items) {
		q.keep(func(*request) bool { return true })
	}
}

// keep takes off all others.
func (q *queue) keep(stays func(*request) bool) {
	n := 0
	for _, r := range q.items[q.head:] {
		if stays(r) {
			q.items[n] = r
			n++
		}
	}
	clear(q.items[n:])
	q.items, q.head = q.items[:n], 0
	if cap(q.items) > 64 && n < cap(q.items)/4 {
		q.items = append(make([]*request, 0, 2*n), q.items...)
	}
}
