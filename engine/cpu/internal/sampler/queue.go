package sampler

// queue holds requests in order of arrival. Its memory shrinks with the number of requests.
type queue struct {
	items []*request
	head  int // items before it have been removed
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(r *request) { q.items = append(q.items, r) }

// first returns the request that has waited longest; nil if the queue is empty.
func (q *queue) first() *request {
	if q.len() == 0 {
		return nil
	}
	return q.items[q.head]
}

// pop removes the first request. Once half of the items are gone, it moves the others to the front.
func (q *queue) pop() {
	q.items[q.head] = nil
	q.head++
	if 2*q.head >= len(q.items) {
		q.keep(func(*request) bool { return true })
	}
}

// keep removes all requests for which stays is false.
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
