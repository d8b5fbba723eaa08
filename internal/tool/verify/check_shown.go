package verify

// checkShown checks that each server has shown the last writes.
func (c *checker) checkShown() {
	c.check(Shown).Checked = c.run.shownCases
	for _, s := range c.run.silences {
		step := s.write.step(c.run)
		resource := s.write.Key.resource
		settle := c.run.cfg.Settle
		if s.err == nil {
			c.addViolation(Shown, s.server.index, []Step{step.withWant("delivered to a watch at %s", s.server.base)},
				"no watch of %s delivered revision %d within %s", resource, s.write.Revision, settle)
			continue
		}
		c.addViolation(Shown, s.server.index, []Step{step.withWant("shown by a list at %s", s.server.base)},
			"no list of %s was answered within %s of revision %d: %v", resource, settle, s.write.Revision, s.err)
	}
}
