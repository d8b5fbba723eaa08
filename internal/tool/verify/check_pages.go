package verify

// page is what a read records of one page of a list.
type page struct {
	revision int64
	objects  int // number of objects in the page
	// remaining is the page's remainingItemCount, the number of objects in later pages. It is
	// -1 if the page has none.
	remaining int64
}

// checkPages checks that all pages of a list are of one revision. It also checks that no page
// has more objects than the limit, and that each remainingItemCount is right. At version 0 a
// server may ignore a limit.
func (c *checker) checkPages(r *Read) {
	if r.Limit == 0 || r.Class == versionZero {
		return
	}
	c.count(Pages)
	remaining := len(r.Objects)
	step := r.step(c.run)
	for i, p := range r.Pages {
		remaining -= p.objects
		switch {
		case p.revision != r.Revision:
			c.addViolation(Pages, r.Server, []Step{step.withWant("pages of revision %d", r.Revision)},
				"the pages are of revisions %v", r.revisions())
			return
		case p.objects > r.Limit:
			c.addViolation(Pages, r.Server, []Step{step.withWant("pages of %d objects at most", r.Limit)},
				"a page has %d objects, the limit is %d", p.objects, r.Limit)
			return
		case p.remaining >= 0 && p.remaining != int64(remaining):
			c.addViolation(Pages, r.Server, []Step{step.withWant("a remainingItemCount of %d", remaining)},
				"after page %d come %d objects, and not %d as it says", i+1, remaining, p.remaining)
			return
		}
	}
}

// revisions returns the revision of each page.
func (r *Read) revisions() (all []int64) {
	for _, p := range r.Pages {
		all = append(all, p.revision)
	}
	return all
}
