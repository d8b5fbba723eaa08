package verify

// page is what a read keeps of one page of a list.
type page struct {
	revision int64
	objects  int
	// remaining is how many objects follow, as the page says. It is -1 if it does not.
	remaining int64
}

// pages checks that all pages of a list are of one revision, that none has more objects than
// its limit, and that remainingItemCount is right where it is told. At version 0 a server may
// ignore a limit.
func (c *checker) pages(r *Read) {
	if r.Limit == 0 || r.Class == zero {
		return
	}
	c.of(Pages).Checked++
	behind := len(r.Objects)
	for i, p := range r.Pages {
		behind -= p.objects
		switch {
		case p.revision != r.Revision:
			c.found(Pages, r.Server, []Step{r.step(c.run).instead("pages of revision %d", r.Revision)}, "the pages are of revisions %v", r.revisions())
			return
		case p.objects > r.Limit:
			c.found(Pages, r.Server, []Step{r.step(c.run).instead("pages of %d objects at most", r.Limit)}, "a page has %d objects, the limit is %d", p.objects, r.Limit)
			return
		case p.remaining >= 0 && p.remaining != int64(behind):
			c.found(Pages, r.Server, []Step{r.step(c.run).instead("a remainingItemCount of %d", behind)}, "behind page %d come %d objects, and not %d as it says", i+1, behind, p.remaining)
			return
		}
	}
}

func (r *Read) revisions() (all []int64) {
	for _, p := range r.Pages {
		all = append(all, p.revision)
	}
	return all
}
