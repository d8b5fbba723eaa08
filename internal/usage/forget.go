package usage

import "github.com/millrace/millrace/internal/report"

// Forget drops what is known of resources that are gone, which are named as in a
// Shape. Clients keep what they cost. Without it thousands of kinds that were there
// once would fill the places, and each keep a page of the heap.
func (l *Accounts) Forget(gone func(resource string) bool) {
	shape := func(s *report.Shape) bool { return gone(s.Resource) }
	for i := range l.clients.stripes {
		l.clients.stripes[i].part(shape)
	}
	for i := range l.shapes.stripes {
		l.shapes.stripes[i].remove(shape)
	}
	l.series.forget(gone)
	l.storms.forget(gone)
}

// part takes partners from all accounts.
func (s *stripe[K, O]) part(from func(*O) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.mu.order {
		for i := range c.partners {
			if p := &c.partners[i]; p.key != nil && from(p.key) {
				*p = partner[O]{}
			}
		}
	}
}

// remove drops accounts. The last ones take their places.
func (s *stripe[K, O]) remove(which func(*K) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place := len(s.mu.order) - 1; place >= 0; place-- {
		c := s.mu.order[place]
		if !which(c.key) {
			continue
		}
		delete(s.mu.cells, c.hash)
		last := len(s.mu.order) - 1
		s.mu.order[place], s.mu.weights[place] = s.mu.order[last], s.mu.weights[last]
		s.mu.order[place].place = place
		s.mu.order[last] = nil
		s.mu.order, s.mu.weights = s.mu.order[:last], s.mu.weights[:last]
	}
}

func (set *seriesSet) forget(gone func(resource string) bool) {
	set.mu.Lock()
	defer set.mu.Unlock()
	for key := range set.mu.all {
		if gone(key.resource) {
			delete(set.mu.all, key)
		}
	}
}

func (s *storms) forget(gone func(resource string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, g := range s.mu.gatherings {
		if gone(key.resource) {
			s.dropLocked(key, g)
		}
	}
}
