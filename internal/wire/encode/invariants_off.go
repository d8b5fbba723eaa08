//go:build !invariants

package encode

// invariantsEnabled says that sums are not checked: the checks below do nothing, and the
// compiler drops their calls.
const invariantsEnabled = false

func (b *Budget) checkLocked()           {}
func (a *segmentAdmission) checkLocked() {}
func (r *RecentFrames) checkLocked()     {}
