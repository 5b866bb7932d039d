package plugin

import "errors"

// ErrUnfinished ends a turn whose budget of work for this round is used up (see
// price.Meter). The pod returns to the active queue, and a later round continues the
// work. The turn counts as no attempt and causes no event or condition.
//
// Code that returns ErrUnfinished must keep its results, so that the next round does only
// the rest. It must also complete some work in each round, or the turn would never end.
var ErrUnfinished = errors.New("the turn goes on in a later round")
