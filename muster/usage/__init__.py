"""Who used, borrowed and wasted the GPUs that were bought.

inputs.read_books       a recording and its stack -> what was held, what was bought, by which quota
ledger.book             every GPU-hour under one cause
bill.to_bill            the hours and the cost by team, department, queue, pool, user or job
bill.format_focus       the same as CSV in the columns of FOCUS
"""
