//! Doubly linked chains over indices: order with removal from the middle in constant time, without pointers.
//!
//! The links live in a slice beside the things they order; a [`Chain`] only knows its ends.

/// No index: the end of a chain.
pub(crate) const NONE: u32 = u32::MAX;

/// A thing's neighbours in its chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    previous: u32,
    next: u32,
}

impl Default for Link {
    fn default() -> Link {
        Link { previous: NONE, next: NONE }
    }
}

/// The two ends of one order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { head: NONE, tail: NONE }
    }
}

impl Chain {
    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(crate) fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    pub(crate) fn after(links: &[Link], index: u32) -> Option<u32> {
        let next = links[index as usize].next;
        (next != NONE).then_some(next)
    }

    pub(crate) fn push_tail(&mut self, links: &mut [Link], index: u32) {
        links[index as usize] = Link { previous: self.tail, next: NONE };
        match self.tail {
            NONE => self.head = index,
            tail => links[tail as usize].next = index,
        }
        self.tail = index;
    }

    pub(crate) fn push_head(&mut self, links: &mut [Link], index: u32) {
        match self.head {
            NONE => self.push_tail(links, index),
            head => self.insert_before(links, head, index),
        }
    }

    pub(crate) fn insert_before(&mut self, links: &mut [Link], neighbour: u32, index: u32) {
        let previous = links[neighbour as usize].previous;
        links[index as usize] = Link { previous, next: neighbour };
        links[neighbour as usize].previous = index;
        match previous {
            NONE => self.head = index,
            previous => links[previous as usize].next = index,
        }
    }

    pub(crate) fn remove(&mut self, links: &mut [Link], index: u32) {
        let Link { previous, next } = links[index as usize];
        match previous {
            NONE => self.head = next,
            previous => links[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => links[next as usize].previous = previous,
        }
    }

    pub(crate) fn iter<'a>(&self, links: &'a [Link]) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(self.head(), |&index| Chain::after(links, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_through_every_kind_of_change() {
        let (mut chain, mut links) = (Chain::default(), vec![Link::default(); 5]);
        chain.push_tail(&mut links, 1);
        chain.push_tail(&mut links, 2);
        chain.push_head(&mut links, 0);
        chain.insert_before(&mut links, 2, 4);
        assert_eq!(chain.iter(&links).collect::<Vec<_>>(), [0, 1, 4, 2]);
        chain.remove(&mut links, 1);
        chain.remove(&mut links, 0);
        chain.remove(&mut links, 2);
        assert_eq!((chain.head(), chain.tail()), (Some(4), Some(4)));
        chain.remove(&mut links, 4);
        assert_eq!((chain.head(), chain.tail()), (None, None));
    }
}
